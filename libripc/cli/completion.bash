# SPDX-License-Identifier: Apache-2.0
# Completes the words of ripc in bash: commands, options, and the values of an option that has a fixed set of them. All
# come from the help of the command.

_ripc() {
  local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]} each help found=""
  local commands=()
  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $each == -* ]]; then break; fi
    commands+=("$each")
  done
  help=$("${COMP_WORDS[0]}" "${commands[@]}" --help 2>/dev/null)
  # Lines of the help: "  --wait TEXT:{spin,block,adaptive}=spin", "  -o,--output TEXT", "  pingpong    Round trips"
  if [[ $last == --* && $last != */* ]]; then
    found=$(sed -n "s/^  [-a-z,]*$last [A-Z]*:{\([^}]*\)}.*/\1/p" <<<"$help" | tr , ' ')
  fi
  if [[ -z $found && $word == -* ]]; then
    found=$(grep -o '^  [-a-z,]*--[-a-z]*' <<<"$help" | grep -o -- '--.*')
  elif [[ -z $found ]]; then
    found=$(sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' <<<"$help")
  fi
  mapfile -t COMPREPLY < <(compgen -W "$found" -- "$word")
}
complete -o default -F _ripc ripc
