#include "pipeline/slots.h"

#include <memory>
#include <string>
#include <vector>

#include "wds/split.h"

namespace millrace::pipeline {

wds::StreamSpec stream_spec(const PipelineOptions& options) {
  return {.shards = std::make_shared<const std::vector<std::string>>(options.shards),
          .shuffle = options.shuffle,
          .num_streams = wds::num_streams(options.split),
          .epoch = options.epochs.first,
          .resampled = options.epochs.resampled,
          .passes = options.epochs.passes,
          .processes = options.split.topology.processes,
          .indexed = options.indexed,
          .counts = options.counts,
          .scans = options.scans,
          .contents = options.contents,
          .process_splitter = options.split.process_splitter,
          .worker_splitter = options.split.worker_splitter};
}

}  // namespace millrace::pipeline
