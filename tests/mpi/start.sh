# To be sourced by each script: start N PROGRAM ARGUMENT... runs N processes of a program on this machine; fail TEXT...
# prints it and lets the test fail at its end (exit $failed); $folder is deleted at the end. Skips the test if mpirun
# cannot start a process.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

failed=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "$*"
  failed=1
}

start() {
  local processes=$1
  shift
  mpirun -np "$processes" "$@"
}

if ! start 1 true >/dev/null 2>&1; then
  echo "mpirun is missing or cannot start a process here"
  exit 77
fi
