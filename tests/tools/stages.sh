# The stages of ./test: keeps their list, runs each with its output in a file, and reports the results.
# ./test sources it after setup.sh.

names=() kinds=() needs=() commands=()
declare -A seconds status pids started weights

# stage NAME one|side|wait|spare NEED,NEED... COMMAND...
stage() {
  names+=("$1") kinds+=("$2") needs+=("$3")
  shift 3
  commands+=("$*")
}

# suites FOLDER: a stage for each [[test]] of that crate that needs real servers. Traffic suites
# assert a request rate and run alone; suites over registries mostly wait.
suites() {
  local kind need test
  for test in $(awk '/^\[\[test\]\]/ {name=""} /^name = / {gsub(/"/, "", $3); name=$3} /^test = false/ && name {print name}' "$1/Cargo.toml"); do
    kind=side need=servers
    case $test in
      kube_networks) kind=wait need=servers,kubernetes,capture ;;
      kube_*) kind=wait need=servers,kubernetes ;;
      consul_*) kind=wait need=servers,consul ;;
      hybrid_*) kind=wait need=servers,kubernetes,consul ;;
      captured) need=servers,capture ;;
      packages) kind=wait need=servers,kubernetes,helm ;;
      console) need=servers,consul,browser ;;
      upgrade)
        stage "$test" wait servers 'build_previous && cargo test --workspace --test upgrade'
        continue
        ;;
      prometheus) kind=wait need=servers,kubernetes,consul,prometheus ;;
    esac
    case $test in *_traffic) kind=one ;; esac
    stage "$test" "$kind" "$need" cargo test --workspace --test "$test"
  done
}

# Checks all code. --all-targets leaves out the tests that plain `cargo test` leaves out.
run_clippy() {
  cargo clippy --workspace --all-targets --all-features -- -D warnings &&
    cargo clippy --workspace --test '*' --all-features -- -D warnings
}

# Builds the tests that plain `cargo test` leaves out.
build_suites() { cargo test --workspace --test '*' --no-run; }

# Checks the ledger again, with the record of the tests that ran. After a part of the stages there is
# no such record, and only the names are checked.
run_ledger() {
  [ -z "${whole:-}" ] || export TRIBUTARY_RUN_LOG="$logs"
  cargo test --workspace --test ledger
}

# Runs the commands of the documents, with the built binary and the fetched Envoy on the path.
run_docs() {
  PATH=$(dirname "$TRIBUTARY_BIN"):$(dirname "$TRIBUTARY_PYTHON"):$PATH python3 tests/tools/docs.py
}

# Builds the benches and the binary that the quickstart builds. One command builds both: two would select different
# features of their dependencies and build them twice.
build_optimized() { cargo build --profile quick --workspace --bin tributary --bin tributary-bench; }

# Builds the binary of the previous commit, for the suite that replaces one version by the other. Sources and artifacts stay in the
# cache, and only changed files are written, so a build costs what changed. The stage of this name and the suite both call it.
build_previous() {
  local folder=$cache/previous commit
  if ! commit=$(git -C "$root" rev-parse -q --verify 'HEAD~1^{commit}'); then
    log 'this clone has no previous commit: the present binary takes its place; clone with the history for a proof over two versions'
    export TRIBUTARY_PREVIOUS_BIN=$TRIBUTARY_BIN
    return 0
  fi
  mkdir -p "$folder"
  (
    if command -v flock >/dev/null; then flock 9; fi
    [ "$(cat "$folder/built" 2>/dev/null)" = "$commit" ] && exit 0
    [ -d "$folder/sources/.git" ] || git clone -q --no-checkout "$root" "$folder/sources" || exit 1
    git -C "$folder/sources" fetch -q "$root" HEAD && git -C "$folder/sources" checkout -q --force --detach "$commit" || exit 1
    cd "$folder/sources" && CARGO_TARGET_DIR=$folder/target cargo build --workspace --bin tributary &&
      cp "$folder/target/debug/tributary" "$folder/tributary" && printf '%s\n' "$commit" >"$folder/built"
  ) 9>"$folder.lock" || return 1
  export TRIBUTARY_PREVIOUS_BIN=$folder/tributary
}

# Runs the benches at the small size, for their counts.
run_bench() { build_optimized && "$CARGO_TARGET_DIR/quick/tributary-bench" small; }

# Leaves the processor to everything else that runs. A stage is a session of its own, which Linux schedules as one group.
lowest_priority() {
  { echo 19 >"/proc/$$/autogroup"; } 2>/dev/null
  renice -n 19 $$ >/dev/null
}

# Runs the README's first command as a new user would: builds, serves, answers, and ends on SIGTERM.
run_quickstart() {
  local xds admin server services
  read -r xds admin < <(python3 -c 'import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in held))')
  ./quickstart --xds-listen "127.0.0.1:$xds" --admin-listen "127.0.0.1:$admin" &
  server=$!
  until curl -sf -o /dev/null "http://127.0.0.1:$admin/readyz"; do
    kill -0 "$server" || return 1
    sleep 0.2
  done
  services=$("$CARGO_TARGET_DIR/quick/tributary" get services --server "http://127.0.0.1:$admin")
  printf '%s\n' "$services"
  kill -TERM "$server" && wait "$server" && grep -q 'hello.quickstart.example' <<<"$services"
}

# Succeeds if stage number $1 was requested; no names mean all.
wanted() {
  [ ${#only[@]} -eq 0 ] && return 0
  local name
  for name in "${only[@]}"; do [ "$name" = "${names[$1]}" ] && return 0; done
  return 1
}

# Prints the processes that still run in the session of stage leader $1.
left_behind() {
  local file line
  for file in /proc/[0-9]*/stat; do
    { line=$(<"$file"); } 2>/dev/null || continue
    # shellcheck disable=SC2086
    set -- "$1" ${line##*) }
    # Now: $2 state, $3 parent, $4 group, $5 session.
    # A process that ends while it is read gives an empty line.
    [ "${5-}" = "$1" ] && [ "${2-}" != Z ] && basename "$(dirname "$file")"
  done
  return 0
}

start() {
  local name=${names[$1]} first=:
  [ "${kinds[$1]}" != spare ] || first=lowest_priority
  log "$name: ${commands[$1]}"
  started[$name]=$(date +%s%N)
  setsid bash -c "root='$root'; . '$root/tests/tools/setup.sh'; . '$root/tests/tools/stages.sh'; logs='$logs'; whole='$whole'; $first; ${commands[$1]}" \
    </dev/null >"$logs/$name.log" 2>&1 &
  pids[$name]=$!
}

# finish NUMBER STATUS: records the result of a stage; a process that it left running is a failure.
finish() {
  local name=${names[$1]} pid left
  pid=${pids[$name]}
  status[$name]=$2
  left=$(left_behind "$pid")
  if [ -n "$left" ]; then
    # shellcheck disable=SC2086
    { printf 'left behind by %s:\n' "$name"; ps -o pid=,args= -p "$(echo $left | tr ' ' ,)"; } >>"$logs/$name.log" 2>&1
    # shellcheck disable=SC2086
    kill -KILL $left 2>/dev/null
    status[$name]=97
  fi
  unset "pids[$name]"
  seconds[$name]=$(awk -v t=$(($(date +%s%N) - started[$name])) 'BEGIN {printf "%.1f", t / 1e9}')
  report "$name"
}

report() {
  if [ "${status[$1]}" = 0 ]; then
    log "$1: ok, ${seconds[$1]} s"
  else
    log "$1: FAILED (${status[$1]}), ${seconds[$1]} s; the end of $logs/$1.log:"
    excerpt "$logs/$1.log" | tail -n "${TRIBUTARY_TAIL:-60}" | sed 's/^/    /'
  fi
}

# Prints libtest's list of failures if there is one; else the whole log.
excerpt() {
  if grep -q '^failures:$' "$1"; then
    awk '/^failures:$/ {on = 1} on && NF; /^test result:/ {on = 0}' "$1"
    tail -n 3 "$1"
  else
    cat "$1"
  fi
}

# Runs stages side by side: two of those marked side, because each runs several tests at once and more of them
# would compete for the processor; up to four of those marked wait. One marked spare runs beside all that follow.
run_all() {
  local i weight
  running=() load=0
  for i in "${!names[@]}"; do
    wanted "$i" || continue
    case ${kinds[$i]} in side) weight=2 ;; wait) weight=1 ;; spare) weight=0 ;; *) weight=4 ;; esac
    while [ $((load + weight)) -gt 4 ]; do join_one; done
    start "$i"
    running+=("$i") load=$((load + weight)) weights[$i]=$weight
  done
  while [ ${#running[@]} -gt 0 ]; do join_one; done
}

# Waits for the stage that ends next and finishes it.
join_one() {
  local i ended outcome left=()
  wait -n -p ended "${pids[@]}"
  outcome=$?
  for i in "${running[@]}"; do
    if [ "${pids[${names[$i]}]}" = "$ended" ]; then finish "$i" $outcome; load=$((load - ${weights[$i]})); else left+=("$i"); fi
  done
  running=("${left[@]}")
}

# Kills every process of the running stages when ./test is stopped.
stop_all() {
  local pid
  for pid in "${pids[@]}"; do
    # shellcheck disable=SC2046
    kill -KILL $(left_behind "$pid") 2>/dev/null
  done
}

# Prints stage, time, tests passed and failed; then the line that machines read.
table() {
  local name ok=0 bad=0 passed failed
  printf '\n%-14s %9s %8s %8s  %s\n' stage seconds passed failed outcome
  for name in "${names[@]}"; do
    [ -n "${status[$name]:-}" ] || continue
    read -r passed failed < <(awk '/^test result:/ {p += $4; f += $6} END {print p + 0, f + 0}' "$logs/$name.log")
    printf '%-14s %9s %8s %8s  %s\n' "$name" "${seconds[$name]}" "$passed" "$failed" \
      "$([ "${status[$name]}" = 0 ] && echo ok || echo FAILED)"
    ok=$((ok + passed)) bad=$((bad + failed))
    if [ "${status[$name]}" = 0 ]; then ok=$((ok + 1)); else bad=$((bad + 1)); failures+=("$name"); fi
  done
  printf '%-14s %9s\n\n' total "$SECONDS"
  [ ${#failures[@]} -eq 0 ] || printf 'failed: %s (logs in %s)\n' "${failures[*]}" "$logs"
  printf '%s passed, %s failed\n' "$ok" "$bad"
  [ "$bad" = 0 ]
}

# Ends before any stage ran, with the same form of the last line.
give_up() { printf '%s\n0 passed, 1 failed\n' "$1"; exit 1; }

prepare() {
  local i required
  required=$(for i in "${!names[@]}"; do ! wanted "$i" || tr , '\n' <<<"${needs[$i]}"; done | sort -u)
  # shellcheck disable=SC2086
  check_machine $required || give_up 'install them and run ./test again'
  # shellcheck disable=SC2086
  need $required || give_up 'the setup did not finish'
}

check_names() {
  local name
  for name in "${only[@]}"; do
    case " ${names[*]} " in *" $name "*) ;; *) printf 'stage %s not found; ./test --list prints the names\n' "$name" >&2; exit 2 ;; esac
  done
}

main() {
  if [ "${1:-}" = --list ]; then printf '%s\n' "${names[@]}"; exit 0; fi
  only=("$@") failures=() whole=
  [ ${#only[@]} -gt 0 ] || whole=yes
  check_names
  prepare
  logs=$cache/logs/$(date +%Y%m%dT%H%M%S)-$$
  mkdir -p "$logs"
  # shellcheck disable=SC2012
  ls -1d "$cache"/logs/*/ | head -n -5 | xargs -r rm -rf
  trap 'stop_all; exit 130' INT TERM
  run_all
  table
}
