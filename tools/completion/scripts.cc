#include "tools/completion/scripts.h"

namespace millrace::tools {
namespace {

constexpr const char* kBash =
    R"script(# Completion of millrace in bash: source <(millrace completion bash)
_millrace() {
  local answer program=${COMP_WORDS[0]/#\~\//$HOME/}
  mapfile -t answer < <("$program" completion line -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
  COMPREPLY=("${answer[@]:2}")
  if [[ ${answer[0]} == *goes-on* ]]; then compopt -o nospace; fi
  if [[ ${answer[0]} == *files* ]]; then
    if ((${#COMPREPLY[@]} == 0)); then
      compopt -o default
    else
      compopt -o filenames
      mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${answer[1]}")
    fi
  fi
}
complete -F _millrace millrace)script";

constexpr const char* kZsh = R"script(#compdef millrace
# Completion of millrace in zsh: millrace completion zsh > _millrace, in a folder of $fpath
_millrace() {
  local -a answer candidates more
  local line program=${(Q)words[1]}
  program=${program/#\~\//$HOME/}
  answer=("${(@f)$($program completion words -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  for line in "${(@)answer[3,-1]}"; do
    [[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  [[ $answer[1] == *goes-on* ]] && more=(-S '')
  (($#candidates)) && _describe -V millrace candidates "${(@)more}"
  if [[ $answer[1] == *files* ]]; then
    [[ $PREFIX == --*=* ]] && compset -P 1 '*='
    _files
  fi
}
if [[ $funcstack[1] == _millrace ]]; then
  _millrace "$@"
else
  compdef _millrace millrace
fi)script";

constexpr const char* kFish =
    R"script(# Completion of millrace in fish: millrace completion fish | source
function __millrace_words
    set -l typed (commandline -ct)
    set -l words (commandline -opc)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -l answer ($program completion words -- $words[2..] "$typed" 2>/dev/null)
    printf '%s\n' $answer[3..]
    if string match -q '*files*' -- "$answer[1]"
        set -l option (string match -r '^--[^=]*=' -- "$typed")
        for path in (__fish_complete_path "$answer[2]")
            printf '%s\n' "$option$path"
        end
    end
end
complete -c millrace -f -a '(__millrace_words)')script";

}  // namespace

std::string completion_script(const std::string& shell) {
  return shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
}

}  // namespace millrace::tools
