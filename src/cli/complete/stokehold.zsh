#compdef stokehold kubectl-stokehold
# zsh completion of stokehold
_stokehold() {
    local -a lines values
    local line value program="${words[1]}"
    [[ $program == '~/'* ]] && program="$HOME/${program[3,-1]}"
    lines=("${(@f)$("$program" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${lines[@]}"; do
        case $line in
            :0) _files ;;
            :*|'') ;;
            *)
                value="${line%%$'\t'*}"
                if [[ $line == *$'\t'* ]]; then
                    values+=("${value//:/\\:}:${line#*$'\t'}")
                else
                    values+=("${value//:/\\:}")
                fi
                ;;
        esac
    done
    (( ${#values} )) && _describe -t values stokehold values
}
if [ "${funcstack[1]}" = _stokehold ]; then
    _stokehold "$@"
else
    compdef _stokehold stokehold kubectl-stokehold
fi
