#include "tools/shown_counts.h"

#include <utility>

#include "pipeline/epoch_length.h"
#include "tools/progress.h"

namespace millrace::tools {

pipeline::PipelineOptions with_shown_counts(pipeline::PipelineOptions options,
                                            trainer::TerminalLine* terminal) {
  const auto opener = options.opener;
  if (options.found.counts || !opener) return pipeline::with_counts(std::move(options));
  Progress progress(terminal, "shards", options.shards.size(), "counting samples");
  const auto followed = progress.follow(opener, options.shards);
  options.opener = followed;
  options = pipeline::with_counts(std::move(options));
  // One that keeps the indexes which were read is for the streams.
  if (options.opener == followed) options.opener = opener;
  return options;
}

}  // namespace millrace::tools
