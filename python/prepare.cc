// What a loader's options become once it starts.
#include <algorithm>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/cache.h"
#include "io/opener.h"
#include "pipeline/epoch_length.h"
#include "python/options.h"
#include "wds/shard_name.h"
#include "wds/shard_scan.h"
#include "wds/shard_spec.h"
#include "wds/split.h"

namespace millrace::python {
namespace {

bool is_bfloat16(const pipeline::ImageField& field) {
  return field.dtype == decode::DType::kBFloat16;
}

std::shared_ptr<const io::Opener> make_opener(const PipelineArguments& options,
                                              const std::stop_token& stop, const Log& log) {
  io::HttpOptions http{.log = log};
  http.retry.patience = options.retry_for;
  std::shared_ptr<const io::Opener> opener = std::make_shared<io::UrlOpener>(io::UrlOpenerOptions{
      .http = std::move(http), .stop = stop, .allow_pipe = options.allow_pipe});
  if (options.cache.empty()) return opener;
  return std::make_shared<io::CachingOpener>(std::move(opener),
                                             io::CacheOptions{.folder = options.cache,
                                                              .max_bytes = options.cache_bytes,
                                                              .keep = wds::is_shard_or_index,
                                                              .stop = stop,
                                                              .log = log});
}

/// Leaves the cores of the machine to all ranks on it alike.
void share_cores(pipeline::ResourceOptions& resources, int ranks) {
  constexpr int kMostOfCores = 4;  // as a pipeline that is alone
  if (ranks <= 1) return;
  const int cores = std::max(1, usable_cores() / ranks);
  if (resources.autotune.most_threads == 0 && resources.threads == 0)
    resources.autotune.most_threads = kMostOfCores * cores;
  if (resources.threads == 0) resources.threads = cores;
}

}  // namespace

std::vector<std::string> PipelineArguments::bfloat16_fields() const {
  std::vector<std::string> names;
  const auto add = [&](const pipeline::ImageField& field) {
    if (is_bfloat16(field)) names.push_back(field.name);
  };
  for (const pipeline::FieldSpec& field : pipeline().fields) {
    if (const auto* image = std::get_if<pipeline::ImageField>(&field)) add(*image);
    if (const auto* paired = std::get_if<pipeline::PairedImagesField>(&field))
      for (const pipeline::ImageField& image : paired->members) add(image);
    const auto* array = std::get_if<pipeline::ArrayField>(&field);
    if (array != nullptr && array->output.dtype == decode::DType::kBFloat16)
      names.push_back(array->name);
    const auto* function = std::get_if<pipeline::FunctionField>(&field);
    if (function != nullptr && function->output.dtype == decode::DType::kBFloat16)
      names.push_back(function->name);
  }
  return names;
}

pipeline::PipelineOptions prepare(const PipelineArguments& options, const Topology& topology,
                                  const std::stop_token& stop, const Log& log) {
  pipeline::Pipeline::Builder builder = options.builder;
  builder.opener(make_opener(options, stop, log)).stop(stop).log(log);
  pipeline::PipelineOptions prepared = builder.expanded();
  const bool runs_shell = std::ranges::any_of(
      prepared.shards, [](const std::string& url) { return url.starts_with("pipe:"); });
  require(options.allow_pipe || !runs_shell, "pipe: urls run a shell: allow_pipe=True allows them");
  wds::check_local_shards(prepared.shards);
  set_topology(prepared, options, topology);
  if (prepared.scan) prepared.scan_cache = wds::default_scan_cache();
  return pipeline::with_counts(std::move(prepared));
}

void set_topology(pipeline::PipelineOptions& prepared, const PipelineArguments& options,
                  const Topology& topology) {
  prepared.split = {.topology = topology,
                    .workers = wds::usual_workers(prepared.shards.size(), topology.processes),
                    .streams = options.streams};
  prepared.resources = options.pipeline().resources;
  share_cores(prepared.resources, topology.node_processes);
}

}  // namespace millrace::python
