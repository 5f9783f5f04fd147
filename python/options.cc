// The keyword arguments of mr.Pipeline, and the structs that they take.
#include "python/options.h"

#include <nanobind/nanobind.h>

#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/cache.h"
#include "io/local_path.h"
#include "pipeline/epoch_length.h"
#include "python/bind.h"
#include "python/struct_binding.h"
#include "wds/shard_name.h"
#include "wds/shard_scan.h"
#include "wds/shard_spec.h"

namespace millrace::python {
namespace {

using pipeline::EpochOptions;
using pipeline::Uneven;
using wds::FaultPolicy;
using wds::OnFault;
using wds::Order;
using wds::ShuffleOptions;

constexpr std::array<Word<Uneven>, 3> kUnevens = {
    {{"pad", Uneven::kPad}, {"drop", Uneven::kDrop}, {"error", Uneven::kError}}};
constexpr std::array<Word<OnFault>, 3> kOnFaults = {
    {{"fail", OnFault::kFail}, {"skip", OnFault::kSkip}, {"stop", OnFault::kStop}}};
constexpr std::array<Word<Order>, 3> kOrders = {{{"millrace", Order::kMillrace},
                                                 {"webdataset", Order::kWebDataset},
                                                 {"permutation", Order::kPermutation}}};

/// A number of bytes, or a size as people write it.
using BytesValue = std::variant<std::uint64_t, std::string>;

std::uint64_t bytes_value(const char* name, const BytesValue& given) {
  if (const auto* bytes = std::get_if<std::uint64_t>(&given)) return *bytes;
  const std::string& text = std::get<std::string>(given);
  const auto bytes = parse_size(text);
  require(bytes.has_value(), std::string(name) + " '" + printable(text) +
                                 "': must be a size such as 3e9, 500M or 2GiB");
  return *bytes;
}

// RawField's values are lists, not arrays, but they share the batch's names.
using NamedField = std::pair<std::vector<std::string>, pipeline::FieldSpec>;
using FieldValue =
    std::variant<pipeline::ImageField, pipeline::PairedImagesField, pipeline::LabelField,
                 pipeline::FloatsField, pipeline::ArrayField, pipeline::RawField>;
using FieldValues = std::vector<std::pair<std::vector<std::string>, FieldValue>>;

void check_name(const std::string& name) {
  require(name != "valid" && name != "keys",
          "a field cannot be named '" + name + "': every batch has that itself");
}

void set_names(pipeline::PairedImagesField& field, const std::vector<std::string>& names) {
  require(names.size() == field.members.size(),
          "PairedImages of " + counted(field.members.size(), "image") + " needs a tuple of " +
              counted(field.members.size(), "name") + " as its key in fields, not of " +
              std::to_string(names.size()));
  for (std::size_t i = 0; i < names.size(); ++i) field.members[i].name = names[i];
}

template <typename Field>
void set_names(Field& field, const std::vector<std::string>& names) {
  require(names.size() == 1, "only PairedImages have a tuple of names as their key in fields");
  field.name = names.front();
}

std::vector<pipeline::FieldSpec> named_fields(const FieldValues& values) {
  std::vector<pipeline::FieldSpec> fields;
  for (const auto& [names, value] : values) {
    for (const std::string& name : names) check_name(name);
    std::visit(
        [&fields, &names = names](auto field) {
          set_names(field, names);
          fields.emplace_back(std::move(field));
        },
        value);
  }
  return fields;
}

struct ResourceValues {
  std::optional<int> threads;
  std::optional<int> io_threads;
  std::optional<int> prefetch;
  std::optional<BytesValue> memory;
  std::optional<bool> autotune;
};

pipeline::ResourceOptions resources_of(const ResourceValues& given) {
  pipeline::ResourceOptions options;
  options.threads = given.threads.value_or(options.threads);
  options.io_threads = given.io_threads.value_or(options.io_threads);
  options.prefetch = given.prefetch.value_or(options.prefetch);
  if (given.memory) options.memory_budget_bytes = bytes_value("memory", *given.memory);
  options.autotune.on = given.autotune.value_or(options.autotune.on);
  return options;
}

void set_cache(LoaderOptions& options, const std::optional<std::string>& folder,
               const std::optional<BytesValue>& size) {
  options.cache_bytes = size ? bytes_value("cache_size", *size) : io::CacheOptions().max_bytes;
  if (!folder) return require(!size, "cache_size needs cache");
  require(!folder->empty() && io::local_path(*folder).has_value(),
          "cache takes a folder of this machine, not a URL");
  options.cache = *io::local_path(*folder);
}

void bind_structs(nb::module_& module) {
  bind_struct<ShuffleOptions, 2>(
      module, "Shuffle",
      "Shards are shuffled, and samples in a buffer of `buffer_samples` in each stream. `seed` "
      "also keys random transforms.",
      ShuffleOptions{.shards = true}, member("buffer_samples", &ShuffleOptions::buffer_samples),
      member("seed", &ShuffleOptions::seed), member("shards", &ShuffleOptions::shards),
      member("open_shards", &ShuffleOptions::open_shards),
      member("buffer_bytes", &ShuffleOptions::buffer_bytes),
      word<ShuffleOptions, Order>("order", &ShuffleOptions::order, kOrders),
      member("initial_samples", &ShuffleOptions::initial_samples),
      member("shard_buffer", &ShuffleOptions::shard_buffer),
      member("detshuffle", &ShuffleOptions::detshuffle));
  bind_struct<FaultPolicy, 1>(
      module, "Faults",
      "What to do with damaged samples: fail, skip (within the limits), or stop reading there.", {},
      word<FaultPolicy, OnFault>("on_fault", &FaultPolicy::on_fault, kOnFaults),
      member("max_faults", &FaultPolicy::max_faults),
      member("max_fault_rate", &FaultPolicy::max_fault_rate),
      member("lenient", &FaultPolicy::lenient), member("concatenated", &FaultPolicy::concatenated),
      member("require_index", &FaultPolicy::require_index));
  bind_struct<EpochOptions, 0>(
      module, "Epochs",
      "What an epoch is: so many samples over all ranks, so many batches of each rank, so many "
      "passes, or shards drawn with replacement. 0: every sample once.",
      {}, member("samples", &EpochOptions::samples), member("batches", &EpochOptions::batches),
      member("passes", &EpochOptions::passes), member("resampled", &EpochOptions::resampled));
}

void init_options(LoaderOptions* self, std::vector<std::string> specs, const FieldValues& fields,
                  std::int64_t batch_size, const std::optional<ShuffleOptions>& shuffle,
                  const std::optional<EpochOptions>& epochs, const std::string& uneven,
                  bool partial, const std::optional<FaultPolicy>& faults,
                  std::optional<int> threads, std::optional<int> io_threads,
                  std::optional<int> prefetch, const std::optional<BytesValue>& memory,
                  std::optional<bool> autotune, int streams, bool indexed, bool scan,
                  const std::optional<std::string>& cache,
                  const std::optional<BytesValue>& cache_size, bool allow_pipe) {
  LoaderOptions options{.specs = std::move(specs), .streams = streams, .allow_pipe = allow_pipe};
  require(!options.specs.empty(), "no shards are given");
  require(streams >= 0, "streams must be at least 0");
  require(batch_size > 0, "batch_size must be above 0");
  options.pipeline.fields = named_fields(fields);
  options.pipeline.batch = {.size = batch_size,
                            .uneven = value_of<Uneven>("uneven", uneven, kUnevens),
                            .partial = partial};
  options.pipeline.shuffle = shuffle.value_or(ShuffleOptions());
  options.pipeline.epochs = epochs.value_or(EpochOptions());
  options.pipeline.epochs.count = 0;  // Python's loop decides
  options.pipeline.faults = faults.value_or(FaultPolicy());
  options.pipeline.resources = resources_of({threads, io_threads, prefetch, memory, autotune});
  options.pipeline.indexed = indexed;
  options.pipeline.scan = scan;
  set_cache(options, cache, cache_size);
  new (self) LoaderOptions(std::move(options));
}

bool is_bfloat16(const pipeline::ImageField& field) {
  return field.dtype == decode::DType::kBFloat16;
}

}  // namespace

std::vector<std::string> LoaderOptions::bfloat16_fields() const {
  std::vector<std::string> names;
  const auto add = [&](const pipeline::ImageField& field) {
    if (is_bfloat16(field)) names.push_back(field.name);
  };
  for (const pipeline::FieldSpec& field : pipeline.fields) {
    if (const auto* image = std::get_if<pipeline::ImageField>(&field)) add(*image);
    if (const auto* paired = std::get_if<pipeline::PairedImagesField>(&field))
      for (const pipeline::ImageField& image : paired->members) add(image);
    const auto* array = std::get_if<pipeline::ArrayField>(&field);
    if (array != nullptr && array->output.dtype == decode::DType::kBFloat16)
      names.push_back(array->name);
  }
  return names;
}

std::shared_ptr<const io::Opener> make_opener(const LoaderOptions& options,
                                              const std::stop_token& stop, const Log& log) {
  std::shared_ptr<const io::Opener> opener = std::make_shared<io::UrlOpener>(
      io::UrlOpenerOptions{.http = {.log = log}, .stop = stop, .allow_pipe = options.allow_pipe});
  if (options.cache.empty()) return opener;
  return std::make_shared<io::CachingOpener>(opener,
                                             io::CacheOptions{.folder = options.cache,
                                                              .max_bytes = options.cache_bytes,
                                                              .keep = wds::is_shard_or_index,
                                                              .stop = stop,
                                                              .log = log});
}

pipeline::PipelineOptions prepare(const LoaderOptions& options, const Topology& topology,
                                  const std::stop_token& stop, const Log& log) {
  pipeline::PipelineOptions prepared = options.pipeline;
  prepared.opener = make_opener(options, stop, log);
  prepared.stop = stop;
  prepared.log = log;
  prepared.shards =
      wds::expand_shards(options.specs, {.opener = prepared.opener.get(), .stop = stop});
  wds::check_local_shards(prepared.shards);
  prepared.split = {.topology = topology,
                    .workers = wds::usual_workers(prepared.shards.size(), topology.processes),
                    .streams = options.streams};
  if (prepared.scan) prepared.scan_cache = wds::default_scan_cache();
  return pipeline::with_counts(std::move(prepared));
}

void bind_options(nb::module_& module) {
  bind_structs(module);
  nb::class_<LoaderOptions>(module, "Options", "The arguments of Pipeline, checked.")
      .def("__init__", &init_options, nb::arg("specs"), nb::kw_only(), nb::arg("fields"),
           nb::arg("batch_size"), nb::arg("shuffle").none(), nb::arg("epochs").none(),
           nb::arg("uneven"), nb::arg("partial"), nb::arg("faults").none(),
           nb::arg("threads").none(), nb::arg("io_threads").none(), nb::arg("prefetch").none(),
           nb::arg("memory").none(), nb::arg("autotune").none(), nb::arg("streams"),
           nb::arg("indexed"), nb::arg("scan"), nb::arg("cache").none(),
           nb::arg("cache_size").none(), nb::arg("allow_pipe"))
      .def_prop_ro("bfloat16_fields", &LoaderOptions::bfloat16_fields);
}

}  // namespace millrace::python
