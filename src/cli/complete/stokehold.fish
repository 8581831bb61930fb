# fish completion of stokehold
function __stokehold_complete
    set -l words (commandline -opc) (commandline -ct)
    set words[1] (string replace -r '^~/' ~/ -- $words[1])
    set -l answer ($words[1] __complete $words[2..-1] 2>/dev/null)
    for line in $answer
        switch $line
            case ':0'
                __fish_complete_path (commandline -ct)
            case ':*'
            case '*'
                echo $line
        end
    end
end
complete -c stokehold -f -a '(__stokehold_complete)'
complete -c kubectl-stokehold -f -a '(__stokehold_complete)'
