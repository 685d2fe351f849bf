# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
#
# Completion of fathom for bash: installed in share/bash-completion/completions, or sourced by hand.
# The program itself knows what can follow; where it knows nothing, names of files are completed.
_fathom() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("${line%%$'\t'*}")
  done < <("${COMP_WORDS[0]/#\~\//$HOME/}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _fathom fathom
