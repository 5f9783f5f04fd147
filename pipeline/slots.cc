#include "pipeline/slots.h"

#include <memory>
#include <string>
#include <vector>

#include "wds/split.h"

namespace millrace::pipeline {

wds::StreamSpec stream_spec(const PipelineOptions& options) {
  const int seeded_for = seed_processes(options);
  return {.shards = std::make_shared<const std::vector<std::string>>(options.shards),
          .shuffle = options.shuffle,
          .num_streams = wds::num_streams(options.split),
          .epoch = options.epochs.first,
          .resampled = options.epochs.resampled,
          .passes = options.epochs.passes,
          .processes = seeded_for > 0 ? seeded_for : options.split.topology.processes,
          .indexed = options.indexed,
          .range = options.range,
          .found = options.found,
          .process_splitter = options.split.process_splitter,
          .worker_splitter = options.split.worker_splitter};
}

int seed_processes(const PipelineOptions& options) {
  const wds::ShuffleOptions& shuffle = options.shuffle;
  if (!options.epochs.resampled || shuffle.order != wds::Order::kWebDataset) return 0;
  return shuffle.seed_processes > 0 ? shuffle.seed_processes : options.split.topology.processes;
}

SlotNumbers slots_of_batch(const wds::SplitOptions& split, std::int64_t size, std::int64_t index) {
  const Topology& topology = split.topology;
  const std::int64_t world = topology.world_size();
  const std::int64_t step = index / topology.devices;
  const std::int64_t device = index % topology.devices;
  const std::int64_t first = wds::stream_stripe(split) > 1
                                 ? topology.first_rank() + device
                                 : topology.process + device * topology.processes;
  return {.first = step * size * world + first, .stride = world};
}

SlotOwner owner_of_slot(const wds::SplitOptions& split, std::uint64_t slot) {
  const Topology& topology = split.topology;
  const int stripe = wds::stream_stripe(split);
  const auto of_step = static_cast<int>(slot % static_cast<std::uint64_t>(topology.world_size()));
  return {.process = wds::process_of(slot, stripe, topology.processes),
          .device = stripe > 1 ? of_step % topology.devices : of_step / topology.processes};
}

}  // namespace millrace::pipeline
