# To be sourced: start N PROGRAM ARGUMENT... runs N processes of a program on this machine; skips the test if
# mpirun cannot start any.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1

start() {
  local processes=$1
  shift
  mpirun -np "$processes" "$@"
}

if ! start 1 true >/dev/null 2>&1; then
  echo "mpirun is missing or cannot start a process here"
  exit 77
fi
