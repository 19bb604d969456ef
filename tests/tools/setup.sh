# Set-up for ./test: checks what the machine has, then makes what the stages need in the private cache.
# Sourced by ./test, which sets root. Everything here is keyed by the hash of what it is made from.

cache=${TRIBUTARY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tributary}
deny_version=0.20.2
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
export PIP_DISABLE_PIP_VERSION_CHECK=1
# A failed test says what it waited for; the stack under it is noise.
export RUST_LIB_BACKTRACE=${RUST_LIB_BACKTRACE:-0}

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*"; }

# The first 12 digits of the hash of the given files and words.
key() {
  local f
  for f in "$@"; do if [ -f "$f" ]; then cat "$f"; else printf '%s\n' "$f"; fi; done \
    | openssl dgst -sha256 -r | cut -c1-12
}

# at_least WANTED HAVE: whether a dotted version is new enough.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }

# Names everything that is absent at once, so that one round of installing is enough.
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
  [ "$1" != servers ] || check_clients
  [ ${#missing[@]} -eq 0 ] && return 0
  printf 'this machine lacks what the tests need:\n' >&2
  printf '  - %s\n' "${missing[@]}" >&2
  return 1
}

# What the real clients need; adds to the caller's list.
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

# make_once FOLDER WHAT FUNCTION: runs FUNCTION FOLDER unless it finished there before. A lock keeps two
# runs from making the same folder; the mark is written last, so a run that was cut short starts again.
make_once() {
  local folder=$1 what=$2 make=$3
  [ -e "$folder/.made" ] && return 0
  say "set-up: $what (once per machine)"
  mkdir -p "$cache"
  (
    if command -v flock >/dev/null; then flock 9; fi
    [ -e "$folder/.made" ] && exit 0
    rm -rf "$folder" && mkdir -p "$folder" || exit 1
    "$make" "$folder" >"$folder/.log" 2>&1 && touch "$folder/.made" && exit 0
    printf 'set-up failed: %s; the end of what it said:\n' "$what" >&2
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

# need WHAT...: everything the chosen stages ask for.
need() {
  local what
  for what in "$@"; do
    case $what in
      -) ;;
      deny) make_once "$cache/cargo-deny-$deny_version" "cargo-deny $deny_version" make_deny || return 1 ;;
      servers) need_servers || return 1 ;;
      *) printf 'no such need: %s\n' "$what" >&2; return 1 ;;
    esac
  done
}

need_servers() {
  local venv node
  venv=$cache/venv-$(key tests/tools/requirements.txt "$(python3 --version)")
  node=$cache/node-$(key tests/tools/package.json tests/tools/package-lock.json "$(node --version)")
  make_once "$venv" "Envoy and gRPC for Python" make_venv || return 1
  make_once "$node" "gRPC for JavaScript" make_node || return 1
  export TRIBUTARY_PYTHON=${TRIBUTARY_PYTHON:-$venv/bin/python}
  export TRIBUTARY_NODE_MODULES=${TRIBUTARY_NODE_MODULES:-$node/node_modules}
  export TRIBUTARY_BIN=${TRIBUTARY_BIN:-$CARGO_TARGET_DIR/debug/tributary}
  if [ -z "${TRIBUTARY_ENVOY:-}" ]; then
    TRIBUTARY_ENVOY=$("$TRIBUTARY_PYTHON" -c 'import envoy, pathlib; print(pathlib.Path(envoy.__file__).parent / "_bin" / "envoy")')
    export TRIBUTARY_ENVOY
  fi
  [ -x "$TRIBUTARY_ENVOY" ] || { printf 'no Envoy at %s: remove %s and run again\n' "$TRIBUTARY_ENVOY" "$venv" >&2; return 1; }
}

cargo_deny() { "$cache/cargo-deny-$deny_version/bin/cargo-deny" "$@"; }
