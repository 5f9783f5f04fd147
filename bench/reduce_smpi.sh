#!/usr/bin/env bash
# reduce_smpi.sh PROGRAM PROCESSES [PARAMETERS [BUCKET [LATENCY_US [OVERHEAD_US [GBIT_S]]]]]: runs reduce_smpi on that many simulated
# machines, each with one link to a switch that lets all of them through.
set -euo pipefail
program=$1 processes=$2 parameters=${3:-1048576} bucket=${4:-262144} latency=${5:-20} overhead=${6:-1} gigabits=${7:-25}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# A message crosses two links, its sender's and its receiver's.
half=$(awk "BEGIN { print $latency / 2 }")
seconds=$(awk "BEGIN { print $overhead / 1e6 }")
cat >"$folder/platform.xml" <<XML
<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="machines" prefix="n" suffix="" radical="0-$((processes - 1))" speed="1Gf" bw="${gigabits}Gbps"
           lat="${half}us" sharing_policy="SPLITDUPLEX"/>
</platform>
XML
for ((i = 0; i < processes; ++i)); do echo "n$i"; done >"$folder/hosts"
smpirun -quiet -np "$processes" -platform "$folder/platform.xml" -hostfile "$folder/hosts" --cfg=network/model:CM02 \
  --cfg=network/crosstraffic:0 --cfg=network/TCP-gamma:0 --cfg=smpi/simulate-computation:no --cfg="smpi/os:0:$seconds:0;1:$seconds:0" --cfg="smpi/ois:0:$seconds:0;1:$seconds:0" --log=root.thresh:error \
  "$program" "$parameters" "$bucket" "$latency" "$overhead" "$gigabits"
