#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# exports_test.sh BUILD-FOLDER: libfathom.so and libfathom.a export the functions that the public
# headers declare, all of them, and nothing else but a few for libfathom_cuda.a, which src/fathom.map names
# private; so does libfathom_cuda.a for the headers of the GPU. A program may have functions with the
# names of our internal ones.
set -eu
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
shared=$build/src/libfathom.so
archive=$build/src/libfathom.a
cuda=$build/src/gpu/libfathom_cuda.a

# GCC lists the functions that it sees a declaration of, and the header of each. The few variables
# (of threads, for inline functions) are found by their `extern`.
(cd include && find fathom -name '*.h' | sed 's/.*/#include "&"/') >"$work/all.c"
gcc -std=c11 -D_GNU_SOURCE -Iinclude -fsyntax-only -aux-info "$work/aux" "$work/all.c"
sed -n 's|^/\* include/\(fathom/[^:]*\):[0-9]*:NC \*/ extern .*\b\(fth_[a-z0-9_]*\) (.*|\1 \2|p' \
  "$work/aux" >"$work/declared"
(cd include && grep -r '^extern ' fathom) |
  sed -n 's/ __attribute__.*//; s/^\([^:]*\):extern [^(]*\b\(fth_[a-z0-9_]*\)\b[^(]*$/\1 \2/p' \
    >>"$work/declared"
of_gpu='^fathom/(detail/)?(gpu|graph/gpu|pm/gpu)'
grep -E "$of_gpu" "$work/declared" | cut -d' ' -f2 | sort -u >"$work/declared-cuda"
grep -vE "$of_gpu" "$work/declared" | cut -d' ' -f2 | sort -u >"$work/declared-host"
[ -s "$work/declared-host" ]
# A library without LZ4 has no tables.
lz4=-llz4
if ! nm -D "$shared" | grep -q ' fth_table_open@'; then
  sed -i '/^fth_table_/d' "$work/declared-host"
  lz4=
fi
# A library without libpg-query has no SQL.
pg_query=
if nm -D "$shared" | grep -q ' U pg_query_parse_protobuf'; then
  pg_query=-lpg_query
else
  sed -i -E '/^fth_(query|storage|tasks)_/d' "$work/declared-host"
fi
# The libraries that unpack text are optional as well.
packed=()
if nm -D "$shared" | grep -q ' U inflate$'; then
  packed+=(-lz)
fi
if nm -D "$shared" | grep -q ' U ZSTD_decompressStream$'; then
  packed+=(-lzstd)
fi
sed -n '/^FATHOM_PRIVATE {/,/^}/s/^\t\(fth_[a-z0-9_]*\);$/\1/p' src/fathom.map | sort >"$work/private"
sort -u "$work/declared-host" "$work/private" >"$work/expected"

# globals FILE [OPTION]: the symbols that a file gives others, without version and its name.
globals() {
  nm -g --defined-only "${@:2}" "$1" | awk 'NF == 3 && $2 != "A" {sub(/@.*/, "", $3); print $3}' |
    grep -vE '^__(asan|tsan|odr_asan)' | sort -u
}

# same WHAT DECLARED: the symbols on stdin are the declared ones.
failed=0
same() {
  sort -u >"$work/exported"
  comm -13 "$2" "$work/exported" >"$work/extra"
  comm -23 "$2" "$work/exported" >"$work/missing"
  if [ -s "$work/extra" ]; then
    sed "s|.*|exports_test: $1 exports &, which no public header declares|" "$work/extra"
    failed=1
  fi
  if [ -s "$work/missing" ]; then
    sed "s|.*|exports_test: $1 does not export &, which a public header declares (between FTH_BEGIN_DECLS and FTH_END_DECLS?)|" "$work/missing"
    failed=1
  fi
  [ "$failed" = 1 ] || echo "exports_test: $1 exports $(wc -l <"$work/exported") functions, all of them declared or private"
}

same libfathom.so "$work/expected" < <(globals "$shared" -D)
same libfathom.a "$work/expected" < <(globals "$archive")
if [ -f "$cuda" ]; then
  same libfathom_cuda.a "$work/declared-cuda" < <(globals "$cuda")
  # What it calls is exported, and what is private is called.
  nm "$cuda" | sed -n 's/^ *U \(fth_.*\)/\1/p' | sort -u >"$work/called"
  if comm -23 "$work/called" "$work/expected" | grep .; then
    echo "exports_test: libfathom_cuda.a calls these, and libfathom does not export them"
    failed=1
  fi
  if comm -23 "$work/private" "$work/called" | grep .; then
    echo "exports_test: these are private in src/fathom.map, and libfathom_cuda.a does not call them"
    failed=1
  fi
fi
[ $failed = 0 ]

# A program that has a function of its own for each internal name. The library calling one of them
# ends it. -rdynamic offers them to the shared library too.
globals "$build/src/libfathom_internal.a" | comm -23 - "$work/expected" >"$work/internal"
grep -qx cache_prepare "$work/internal"
{
  echo '#include <stdlib.h>'
  sed 's/.*/void &(void);\nvoid &(void)\n{\n\tabort();\n}/' "$work/internal"
} >"$work/own.c"
mapfile -t flags < <(cd "$build" && sed -n 's/^FTH_SANITIZE:STRING=address$/-fsanitize=address,undefined/p
  s/^FTH_SANITIZE:STRING=thread$/-fsanitize=thread/p' CMakeCache.txt)
flags+=(-std=c11 -D_GNU_SOURCE -Iinclude -rdynamic)
for program in array_histogram vol_array; do
  gcc "${flags[@]}" "examples/$program.c" "$work/own.c" "$archive" -luring $lz4 $pg_query "${packed[@]}" -lm -pthread \
    -o "$work/$program-static"
  gcc "${flags[@]}" "examples/$program.c" "$work/own.c" "$shared" -Wl,-rpath,"$(realpath "$build/src")" \
    -o "$work/$program-shared"
done
for kind in static shared; do
  "$work/array_histogram-$kind" 'softnvme(mem:1M)' >"$work/out"
  grep -q '100.000%' "$work/out"
  examples/vol_array_test.sh "$work/vol_array-$kind"
done
echo "exports_test: a program with $(wc -l <"$work/internal") functions named like internal ones runs"
