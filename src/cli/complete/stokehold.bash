# bash completion of stokehold
_stokehold() {
    local IFS=$'\n' line="${COMP_LINE:0:COMP_POINT}" current="" words=() answer
    # The line is split here: bash also splits words at : and =.
    IFS=$' \t' read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] || current="${words[${#words[@]} - 1]}"
    [[ -z $current ]] && words+=("")
    [[ ${words[0]} == \~/* ]] && words[0]="$HOME/${words[0]:2}"
    answer="$("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)" || return
    local kept="" values=()
    case $current in *[=:]*) kept="${current%"${current##*[=:]}"}" ;; esac
    while read -r line; do
        case $line in
            :0) compopt -o default 2>/dev/null ;;
            :*) ;;
            *) line="${line%%$'\t'*}" && values+=("${line#"$kept"}") ;;
        esac
    done <<<"$answer"
    COMPREPLY=("${values[@]}")
    [[ ${#values[@]} -eq 1 && ${values[0]} == *[/=] ]] && compopt -o nospace 2>/dev/null
}
complete -F _stokehold stokehold kubectl-stokehold
