#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""pm_samples_test.py BUILD-FOLDER: the code samples of fathom/pm/checkpoint.h and fathom/pm/tx.h keep what a run before them left.

The samples are taken from the headers, as samples_test.py does, and called twice on the same memory, as in two runs of a program:
the second run must restore the checkpoint of the first one, and roll back a transaction that the first one left open.
"""
import os
import subprocess
import sys
import tempfile

import samples_test

HEADERS = ("include/fathom/pm/checkpoint.h", "include/fathom/pm/tx.h")
PROGRAM = """
#define MUST(x) do if (!(x)) { fprintf(stderr, "%s\\n", #x); return 1; } while (0)

static int checkpoint_run(unsigned run)
{
	for (unsigned k = 0; k < 4; k++)
		weights[k] = biases[k] = run == 0 ? 3 : 0;
	CHECKPOINT();
	for (unsigned k = 0; k < 4; k++)
		MUST(weights[k] == 3 && biases[k] == 3);
	return 0;
}

/* The first run leaves a transaction open behind the sample. */
static int transaction_run(unsigned run)
{
	struct fth_pm_tx *tx;

	offset = 16u << 20;
	debit = (uint64_t *)((char *)fth_pm_base(pm) + (17u << 20));
	credit = debit + 8;
	amount = 5;
	if (run == 0)
		debit[0] = 100;
	TRANSACTION();
	MUST(debit[0] == 100 - 5 * (run + 1) && credit[0] == 5 * (run + 1));
	MUST(fth_pm_tx_open(pm, offset, &tx) == 0 && fth_pm_tx_begin(tx, 1) == 0);
	MUST(fth_pm_tx_add(tx, 1, debit, 8) == 0);
	debit[0] = 0;
	MUST(fth_pm_persist(pm, debit, 8) == 0);
	fth_pm_tx_close(tx);
	return 0;
}

int main(int argc, char **argv)
{
	struct fth_pm_options options = FTH_PM_OPTIONS_INIT;

	options.flags = FTH_PM_CREATE;
	for (unsigned run = 0; run < 2; run++) {
		MUST(argc == 2 && fth_pm_map(argv[1], 18u << 20, &options, &pm) == 0);
		MUST(checkpoint_run(run) == 0 && transaction_run(run) == 0);
		MUST(fth_pm_unmap(pm) == 0);
	}
	return 0;
}
"""


def sample_of(path):
    """The sample of a header: the name of its function, and the function."""
    with open(path, encoding="utf-8") as file:
        number, block = next(samples_test.blocks_of(path, file.read().split("\n")))
    source = samples_test.wrap(path, number, block, False)
    return source.split("(")[0].split()[-1], source.rstrip().removesuffix("}") + "\treturn 0;\n}\n"


def main():
    library = os.path.abspath(os.path.join(sys.argv[1], "src"))
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    names, sources = zip(*[sample_of(path) for path in HEADERS])
    text = PROGRAM.replace("CHECKPOINT", names[0]).replace("TRANSACTION", names[1])
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "samples.c"), os.path.join(folder, "samples")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <fathom.h>\n#include <stdio.h>\n")
            file.write(samples_test.CONTEXT_PM + "".join(sources) + text)
        subprocess.run([os.environ.get("CC", "cc"), *samples_test.C_FLAGS[:-1], source, "-o", program, f"-L{library}",
                        "-lfathom", f"-Wl,-rpath,{library}"], check=True)
        subprocess.run([program, f"file:{folder}/memory"], check=True, timeout=60)
    print(f"pm_samples_test: {len(HEADERS)} samples keep what was there")


if __name__ == "__main__":
    main()
