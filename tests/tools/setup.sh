# Setup for ./test: checks the tools of the machine, then builds what the stages need in the private cache.
# ./test sources it and sets root. Every folder in the cache is keyed by the hash of its inputs.

cache=${TRIBUTARY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tributary}
deny_version=0.20.2
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
# A clone in CI is built once: state for the next build would only fill the disk.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
export PIP_DISABLE_PIP_VERSION_CHECK=1
# A failed test reports the awaited condition; a backtrace adds nothing. Without debug information, the many test
# binaries are built faster and take a third of the space.
export RUST_LIB_BACKTRACE=${RUST_LIB_BACKTRACE:-0} CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-false}

log() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }

# Prints the first 12 digits of the hash of the given files and texts.
key() {
  local f
  for f in "$@"; do if [ -f "$f" ]; then cat "$f"; else printf '%s\n' "$f"; fi; done \
    | openssl dgst -sha256 -r | cut -c1-12
}

# at_least WANTED HAVE: succeeds if a dotted version is new enough.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }

# check_machine NEED...: reports everything that is absent at once.
check_machine() {
  local missing=() rust want
  want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  command -v cargo >/dev/null || missing+=("cargo: install Rust $want or newer with rustup")
  if command -v rustc >/dev/null; then
    rust=$(rustc --version | cut -d' ' -f2)
    at_least "$want" "$rust" || missing+=("rustc $want or newer: this one is $rust, run rustup update")
  else
    missing+=("rustc: install Rust $want or newer with rustup")
  fi
  command -v openssl >/dev/null || missing+=("openssl: install the openssl package")
  case " $* " in *" servers "*) check_clients ;; esac
  case " $* " in *" kubernetes "* | *" consul "* | *" helm "*) check_go ;; esac
  case " $* " in *" capture "*) check_capture ;; esac
  case " $* " in *" browser "*) check_browser ;; esac
  case " $* " in *" prometheus "*) check_prometheus ;; esac
  [ ${#missing[@]} -eq 0 ] && return 0
  printf 'this machine lacks what the tests need:\n' >&2
  printf '  - %s\n' "${missing[@]}" >&2
  return 1
}

# Checks the tools that the real clients need; adds to the caller's list.
check_clients() {
  local node
  if ! command -v python3 >/dev/null; then
    missing+=("python3: install Python 3.10 or newer")
  elif ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
    missing+=("python3 with venv: install the python3-venv package")
  fi
  if command -v node >/dev/null; then
    node=$(node --version)
    at_least 20 "${node#v}" || missing+=("node 20 or newer: this one is $node")
  else
    missing+=("node: install Node 20 or newer")
  fi
  command -v npm >/dev/null || missing+=("npm: it comes with Node")
}

# Checks the tools that build the servers; adds to the caller's list. From 1.21 on, Go fetches the version
# that a go.mod requires.
check_go() {
  local have
  if command -v go >/dev/null; then
    have=$(go env GOVERSION)
    at_least 1.21 "${have#go}" || missing+=("go 1.21 or newer: this one is ${have#go}")
  else
    missing+=("go: install Go 1.21 or newer, which builds the Kubernetes API server, etcd, Consul and Helm")
  fi
}

# Checks what unpacks Debian's Prometheus; adds to the caller's list.
check_prometheus() {
  [ -n "${TRIBUTARY_PROMETHEUS:-}" ] || { command -v dpkg-deb && command -v apt-get; } >/dev/null ||
    missing+=("apt-get and dpkg-deb, which fetch Prometheus: or set TRIBUTARY_PROMETHEUS to one that has promtool beside it")
}

# Prints the tools of tests with captured sidecars that are absent, with the packages that have them.
absent_for_capture() {
  command -v ip >/dev/null || printf 'iproute2\n'
  { command -v iptables-restore && command -v ip6tables-restore; } >/dev/null || printf 'iptables\n'
}

# Checks what redirects connections to a proxy; adds to the caller's list. apt-get installs absent packages later.
check_capture() {
  local hint='or set TRIBUTARY_SKIP_CAPTURE=1, which leaves these tests out'
  [ "${TRIBUTARY_SKIP_CAPTURE:-}" = 1 ] && return 0
  unshare --net true 2>/dev/null ||
    missing+=("network namespaces: run as root or with CAP_SYS_ADMIN and CAP_NET_ADMIN, $hint")
  [ -z "$(absent_for_capture)" ] || { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } ||
    missing+=("iptables and ip: install the packages iptables and iproute2, $hint")
}

# Installs the packages that tests with captured sidecars need, on the machine itself.
install_capture() {
  local packages
  [ "${TRIBUTARY_SKIP_CAPTURE:-}" = 1 ] && return 0
  packages=$(absent_for_capture)
  [ -n "$packages" ] || return 0
  log "setup: apt-get install" $packages
  # shellcheck disable=SC2086
  apt_get install $packages || { apt_get update && apt_get install $packages; } && [ -z "$(absent_for_capture)" ] && return 0
  printf 'setup failed: apt-get could not install %s\n' "$packages" >&2
  return 1
}

# Checks that there is a Chromium, or that apt-get can install it; adds to the caller's list.
check_browser() {
  [ -x "${TRIBUTARY_CHROMIUM:-/usr/bin/chromium}" ] || { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; } ||
    missing+=("chromium: install it, or set TRIBUTARY_CHROMIUM to a Chromium or Chrome")
}

# Installs the browser that opens the console, on the machine itself.
install_browser() {
  [ ! -x "${TRIBUTARY_CHROMIUM:-/usr/bin/chromium}" ] || return 0
  log "setup: apt-get install chromium"
  apt_get install chromium || { apt_get update && apt_get install chromium; } && return 0
  printf 'setup failed: apt-get could not install chromium\n' >&2
  return 1
}

# One at a time: apt-get does not wait for another one.
apt_get() {
  mkdir -p "$cache"
  (
    if command -v flock >/dev/null; then flock 9; fi
    DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends "$@" >/dev/null
  ) 9>"$cache/apt.lock"
}

# make_once FOLDER WHAT FUNCTION: runs FUNCTION FOLDER unless it finished there before. A lock keeps two
# runs from making the same folder; the mark is written last, so a run that was cut short starts again.
make_once() {
  local folder=$1 what=$2 make=$3
  [ -e "$folder/.made" ] && return 0
  log "setup: $what (once per machine)"
  mkdir -p "$cache"
  (
    if command -v flock >/dev/null; then flock 9; fi
    [ -e "$folder/.made" ] && exit 0
    rm -rf "$folder" && mkdir -p "$folder" || exit 1
    "$make" "$folder" >"$folder/.log" 2>&1 && touch "$folder/.made" && exit 0
    printf 'setup failed: %s; the end of its output:\n' "$what" >&2
    tail -n 20 "$folder/.log" >&2
    exit 1
  ) 9>"$folder.lock"
}

make_venv() {
  python3 -m venv "$1" &&
    "$1/bin/pip" install --quiet --require-hashes --only-binary :all: --no-deps \
      -r "$root/tests/tools/requirements.txt"
}

make_node() {
  cp "$root/tests/tools/package.json" "$root/tests/tools/package-lock.json" "$1/" &&
    (cd "$1" && npm ci --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund)
}

make_deny() {
  local status
  CARGO_TARGET_DIR="$1/build" cargo install --locked --version "$deny_version" --root "$1" cargo-deny
  status=$?
  rm -rf "$1/build"
  return $status
}

# go_build MODULE PACKAGE BINARY FLAGS: builds a tool of one of the Go modules, with exactly the versions of its go.sum.
go_build() { (cd "$root/tests/tools/servers/$1" && go build -mod=readonly -trimpath -ldflags "-s -w $4" -o "$3" "$2"); }

make_kubernetes() {
  local module=$root/tests/tools/servers/kubernetes version minor stamp=k8s.io/component-base/version
  version=$(awk '$1 == "k8s.io/kubernetes" {print $2}' "$module/go.mod")
  minor=${version#v1.} minor=${minor%%.*}
  # Without the stamp, the server would report v0.0.0.
  go_build kubernetes k8s.io/kubernetes/cmd/kube-apiserver "$1/kube-apiserver" \
    "-X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor" &&
    go_build kubernetes go.etcd.io/etcd/server/v3 "$1/etcd" ""
}

make_consul() { go_build consul github.com/hashicorp/consul "$1/consul" ""; }

make_helm() {
  local version
  version=$(awk '$1 == "helm.sh/helm/v4" {print $2}' "$root/tests/tools/servers/helm/go.mod")
  go_build helm helm.sh/helm/v4/cmd/helm "$1/helm" "-X helm.sh/helm/v4/internal/version.version=$version"
}

# Unpacks Debian's package. It is not installed: an installed one would start a service.
make_prometheus() {
  local package
  package=$(find /var/cache/apt/archives -maxdepth 1 -name 'prometheus_*.deb' 2>/dev/null | sort -V | tail -n 1)
  if [ -z "$package" ]; then
    (cd "$1" && { apt-get -q download prometheus || { apt_get update && apt-get -q download prometheus; }; }) || return 1
    package=$(find "$1" -name 'prometheus_*.deb')
  fi
  dpkg-deb --extract "$package" "$1" && "$1/usr/bin/promtool" --version
}

# Prints the folder of WHAT in the cache; its name has the hash of all inputs.
folder_of() {
  local servers=tests/tools/servers/$1
  case $1 in
    deny) printf '%s/cargo-deny-%s\n' "$cache" "$deny_version" ;;
    venv) printf '%s/venv-%s\n' "$cache" "$(key tests/tools/requirements.txt "$(python3 --version)")" ;;
    node) printf '%s/node-%s\n' "$cache" \
      "$(key tests/tools/package.json tests/tools/package-lock.json "$(node --version)")" ;;
    prometheus) printf '%s/prometheus-%s\n' "$cache" "$(dpkg --print-architecture)" ;;
    kubernetes | consul | helm) printf '%s/%s-%s\n' "$cache" "$1" \
      "$(key "$servers/go.mod" "$servers/go.sum" "$(cd "$servers" && go env GOVERSION)")" ;;
  esac
}

# need WHAT...: builds everything that the chosen stages need. All at once, because some of it waits for the
# network and some for the processor.
need() {
  local what job jobs=() failed=0
  for what in "$@"; do
    case $what in
      -) ;;
      deny) made deny "cargo-deny $deny_version" & jobs+=($!) ;;
      servers)
        made venv "Envoy and gRPC for Python" & jobs+=($!)
        made node "gRPC for JavaScript, and what drives a browser" & jobs+=($!)
        ;;
      kubernetes) made kubernetes "kube-apiserver and etcd, which take about five minutes" & jobs+=($!) ;;
      capture) install_capture & jobs+=($!) ;;
      browser) install_browser & jobs+=($!) ;;
      prometheus) [ -n "${TRIBUTARY_PROMETHEUS:-}" ] || { made prometheus "Prometheus of Debian" & jobs+=($!); } ;;
      consul) made consul "Consul, which takes about three minutes" & jobs+=($!) ;;
      helm) made helm "Helm, which takes about two minutes" & jobs+=($!) ;;
      *) printf 'unknown need: %s\n' "$what" >&2; return 1 ;;
    esac
  done
  for job in "${jobs[@]}"; do wait "$job" || failed=1; done
  [ $failed = 0 ] || return 1
  for what in "$@"; do
    case $what in servers | kubernetes | consul | helm | prometheus) "name_$what" || return 1 ;; esac
  done
}

made() { make_once "$(folder_of "$1")" "$2" "make_$1"; }

name_kubernetes() {
  local folder
  folder=$(folder_of kubernetes)
  export TRIBUTARY_KUBE_APISERVER=${TRIBUTARY_KUBE_APISERVER:-$folder/kube-apiserver}
  export TRIBUTARY_ETCD=${TRIBUTARY_ETCD:-$folder/etcd}
}

name_helm() { export TRIBUTARY_HELM=${TRIBUTARY_HELM:-$(folder_of helm)/helm}; }

name_consul() { export TRIBUTARY_CONSUL=${TRIBUTARY_CONSUL:-$(folder_of consul)/consul}; }

name_prometheus() { export TRIBUTARY_PROMETHEUS=${TRIBUTARY_PROMETHEUS:-$(folder_of prometheus)/usr/bin/prometheus}; }

name_servers() {
  local venv
  venv=$(folder_of venv)
  export TRIBUTARY_PYTHON=${TRIBUTARY_PYTHON:-$venv/bin/python}
  export TRIBUTARY_NODE_MODULES=${TRIBUTARY_NODE_MODULES:-$(folder_of node)/node_modules}
  export TRIBUTARY_BIN=${TRIBUTARY_BIN:-$CARGO_TARGET_DIR/debug/tributary}
  if [ -z "${TRIBUTARY_ENVOY:-}" ]; then
    TRIBUTARY_ENVOY=$("$TRIBUTARY_PYTHON" -c 'import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / "_bin" / "envoy")')
    export TRIBUTARY_ENVOY
  fi
  [ -x "$TRIBUTARY_ENVOY" ] || { printf 'no Envoy at %s: remove %s and run again\n' "$TRIBUTARY_ENVOY" "$venv" >&2; return 1; }
}

cargo_deny() { "$(folder_of deny)/bin/cargo-deny" "$@"; }
