# Prints what bash completes, one a line: the script of `tributary completion bash`, and the words after `tributary`, of which the
# last one is completed.
source "$1"
shift
COMP_WORDS=(tributary "$@") COMP_CWORD=$#
_tributary tributary "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
