# What the scripts of this folder share. Sourced, never run.

LIVE_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LIVE_CACHE=${STOKEHOLD_LIVE_CACHE:-$HOME/.cache/stokehold-live}
LIVE_DIR=${STOKEHOLD_LIVE_DIR:-$LIVE_CACHE/run}
# Kubernetes' release: 1.36 or 1.37.
LIVE_KUBERNETES=${STOKEHOLD_LIVE_KUBERNETES:-1.36}
LIVE_PROGRAMS=(etcd kwok kube-apiserver kube-controller-manager kube-scheduler kubectl kueue seed)
# The controllers of jobs on the large fleet, and where each one's webhooks are answered.
declare -A LIVE_CONTROLLERS=([jobset]=9444 [lws]=9445 [trainer]=9446)
# What runs on the fleet of the second lane: KubeRay, KAI and Karpenter.
LIVE_SECOND=(kuberay karpenter kai-scheduler kai-podgrouper kai-podgroupcontroller kai-queuecontroller kai-binder)

# The programs of a fleet, those of all without a name.
live_programs() {
  local program
  for program in "${LIVE_PROGRAMS[@]}"; do echo "$program"; done
  [ "${1:-}" = second ] || echo exposition
  case ${1:-} in large | "") for program in "${!LIVE_CONTROLLERS[@]}"; do echo "$program"; done ;; esac
  case ${1:-} in second | "") for program in "${LIVE_SECOND[@]}"; do echo "$program"; done ;; esac
}

say() { printf 'live: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# The name of a network namespace must be short and is shared by the whole
# machine: one for each state folder.
live_namespace() { printf 'stokehold-%s\n' "$(printf '%s' "$LIVE_DIR" | sha256sum | cut -c1-8)"; }

# The folder of a program's source. Kueue compiles most of what the other controllers consist of: they are tools of its module.
live_source() {
  case $1 in
    jobset | lws | trainer) printf '%s/kueue\n' "$LIVE_HERE" ;;
    kai-*) printf '%s/kai\n' "$LIVE_HERE" ;;
    kube-apiserver | kube-controller-manager | kube-scheduler)
      case $LIVE_KUBERNETES in
        1.36) printf '%s/%s\n' "$LIVE_HERE" "$1" ;;
        1.37) printf '%s/kubernetes-1.37\n' "$LIVE_HERE" ;;
        *) die "STOKEHOLD_LIVE_KUBERNETES is 1.36 or 1.37, not $LIVE_KUBERNETES" ;;
      esac
      ;;
    *) printf '%s/%s\n' "$LIVE_HERE" "$1" ;;
  esac
}

# The folder that holds a program's binary: it changes with whatever goes into it.
live_bin() {
  local program=$1 sum
  sum=$(cd "$(live_source "$program")" && find . -type f ! -name '*_test.go' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16)
  printf '%s/%s/bin/%s\n' "$LIVE_CACHE" "$sum" "$program"
}

# The folder of other projects' definitions, taken out of their modules with seed.
live_definitions() { printf '%s/definitions\n' "$(dirname "$(dirname "$(live_bin seed)")")"; }

# live_debian PACKAGE PROGRAM: a program as Debian packs it: the installed one, or
# the package unpacked into the cache, which starts no service.
live_debian() {
  local package=$1 program=$2
  command -v "$program" && return
  local folder=$LIVE_CACHE/$package
  if [ ! -x "$folder/usr/bin/$program" ]; then
    say "fetching Debian's $package (once)"
    rm -rf "$folder.part"
    mkdir -p "$folder.part"
    (
      cd "$folder.part"
      apt-get download -qq "$package" >&2 2>/dev/null || { apt-get update -qq >&2 && apt-get download -qq "$package" >&2; }
      dpkg-deb -x "$package"_*.deb .
      rm -f "$package"_*.deb
    ) || die "the package $package could not be fetched"
    rm -rf "$folder"
    mv "$folder.part" "$folder"
  fi
  printf '%s/usr/bin/%s\n' "$folder" "$program"
}

live_prometheus() { live_debian prometheus prometheus; }
live_promtool() { live_debian prometheus promtool; }
live_alertmanager() { live_debian prometheus-alertmanager prometheus-alertmanager; }

# need COMMAND PACKAGE: install what is missing, without questions.
need() {
  command -v "$1" >/dev/null && return 0
  say "installing $2"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq "$2" >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq "$2" >/dev/null; }
  command -v "$1" >/dev/null || die "$1 is missing and the package $2 did not bring it"
}

# The address of the API server, the kubelets' server and every node.
LIVE_ADDRESS=10.255.0.1

live_is_up() {
  [ -e "$LIVE_DIR/ready" ] && [ -e "/run/netns/$(live_namespace)" ] || return 1
  local file
  for file in "$LIVE_DIR"/pids/*; do
    kill -0 "$(cat "$file")" 2>/dev/null || return 1
  done
}
