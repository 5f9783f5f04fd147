// The keyword arguments of mr.Pipeline, and the structs that they take.
#include "python/options.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/cache.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "pipeline/batch_fields.h"
#include "python/bind.h"
#include "python/struct_binding.h"
#include "wds/mix.h"

namespace millrace::python {
namespace {

using pipeline::EpochOptions;
using wds::FaultPolicy;
using wds::ShuffleOptions;

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
using FieldValue = std::variant<pipeline::ImageField, pipeline::PairedImagesField,
                                pipeline::LabelField, pipeline::FloatsField, pipeline::BoxesField,
                                pipeline::TextField, pipeline::AudioField, pipeline::VideoField,
                                pipeline::ArrayField, pipeline::RawField>;
using FieldValues = std::vector<std::pair<std::vector<std::string>, FieldValue>>;

constexpr std::array<Word<decode::DType>, 6> kArrayTypes = {{{"float32", decode::DType::kFloat32},
                                                             {"bfloat16", decode::DType::kBFloat16},
                                                             {"float16", decode::DType::kFloat16},
                                                             {"uint8", decode::DType::kUInt8},
                                                             {"uint16", decode::DType::kUInt16},
                                                             {"int64", decode::DType::kInt64}}};

void check_name(const std::string& name) {
  require(!name.empty(), "a field needs a name");
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

/// Name, what it is called, shape, type, members.
using FunctionValue = std::tuple<std::string, std::string, std::vector<std::int64_t>, std::string,
                                 std::vector<std::string>>;

FunctionSpec function_of(const FunctionValue& value) {
  const auto& [name, described, shape, dtype, members] = value;
  check_name(name);
  return {.name = name,
          .described = described,
          .output = {.dtype = value_of("dtype", dtype, kArrayTypes), .shape = shape},
          .members = members};
}

/// Stands for a function until the loader has its processes.
void not_started(const wds::Sample& /*sample*/, const decode::SampleId& /*id*/,
                 std::span<std::byte> /*slot*/) {
  throw Error(ErrorCode::kInvalidArgument, "the loader's functions were not started");
}

void set_functions(PipelineArguments& options, const std::vector<FunctionValue>& values,
                   double timeout) {
  constexpr double kMost = 1e6;
  require(timeout > 0 && timeout <= kMost, "function_timeout is a number of seconds, above 0");
  options.function_timeout = std::chrono::milliseconds(
      std::max<std::int64_t>(1, static_cast<std::int64_t>(1000 * timeout)));
  for (const FunctionValue& value : values) {
    options.functions.push_back(function_of(value));
    const FunctionSpec& made = options.functions.back();
    options.builder.options().fields.emplace_back(
        pipeline::FunctionField{.name = made.name, .output = made.output, .decode = not_started});
  }
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

void set_cache(PipelineArguments& options, const std::optional<std::string>& folder,
               const std::optional<BytesValue>& size) {
  options.cache_bytes = size ? bytes_value("cache_size", *size) : io::CacheOptions().max_bytes;
  if (!folder) return require(!size, "cache_size needs cache");
  require(!folder->empty() && io::local_path(*folder).has_value(),
          "cache takes a folder of this machine, not a URL");
  options.cache = *io::local_path(*folder);
}

void set_decoded_cache(PipelineArguments& options, const std::optional<BytesValue>& size,
                       const std::optional<std::string>& folder) {
  require(size || !folder, "cache_decoded_in needs cache_decoded");
  if (!size) return;
  options.decoded_bytes = bytes_value("cache_decoded", *size);
  require(options.decoded_bytes > 0, "cache_decoded must be above 0");
  options.decoded_folder = folder.value_or("");
  require(!folder || std::filesystem::is_directory(*folder),
          "cache_decoded_in takes a folder that is there");
}

/// A mix of several sets, each with its weight.
struct Mix {
  std::vector<std::pair<double, std::string>> parts = {};
  wds::MixEnd end = wds::MixEnd::kStop;
};

void bind_shuffle(nb::module_& module) {
  bind_struct<ShuffleOptions, 2>(
      module, "Shuffle",
      "Shards are shuffled, and samples in a buffer of `buffer_samples` in each stream. `seed` "
      "also keys random transforms.",
      ShuffleOptions{.shards = true},
      member("buffer_samples", &ShuffleOptions::buffer_samples,
             "Samples in each stream's buffer; 0 or 1: none."),
      member("seed", &ShuffleOptions::seed, "Another seed is another order, and other crops."),
      member("shards", &ShuffleOptions::shards, "Whether the list of shards is shuffled."),
      member("open_shards", &ShuffleOptions::open_shards,
             "Shards of each stream that are read in turn, a sample each, in front of the buffer, "
             "so that shards that hold one class each are mixed."),
      member("buffer_bytes", &ShuffleOptions::buffer_bytes,
             "The buffer's limit in bytes of samples. It changes the order."),
      word<wds::kOrderWords>(
          "order", &ShuffleOptions::order,
          "\"millrace\"; \"webdataset\": bit for bit as WebDataset 1.0.2; \"permutation\": an "
          "exact shuffle of all samples, each read by its place."),
      member("initial_samples", &ShuffleOptions::initial_samples,
             "Of order=\"webdataset\": samples gathered before the first is returned."),
      member("shard_buffer", &ShuffleOptions::shard_buffer,
             "Of order=\"webdataset\": WebDataset(shardshuffle=); 0: SimpleShardList(seed=)."),
      member("detshuffle", &ShuffleOptions::detshuffle,
             "Of order=\"webdataset\": another order each epoch."),
      member("where", &ShuffleOptions::where,
             "Of order=\"permutation\": keep samples by an expression over their key and small "
             "fields, before anything else of them is read: \"json.width >= 256 and json.score > "
             "0.28\"."),
      member("balance", &ShuffleOptions::balance,
             "Of order=\"permutation\": draw each class (\"classes\", of the field cls), or each "
             "value of \"json.NAME\", equally often."),
      member("weight", &ShuffleOptions::weight,
             "Of order=\"permutation\": draw samples by their weights, \"json.NAME\" or a file of "
             "lines KEY WEIGHT."),
      member("copies", &ShuffleOptions::copies,
             "Of order=\"permutation\": repeated augmentation. Each sample so many times in slots "
             "that follow each other, with other crops and flips each time; an epoch stays as "
             "long."));
}

void bind_faults(nb::module_& module) {
  bind_struct<FaultPolicy, 1>(
      module, "Faults",
      "What to do with damaged samples: fail, skip (within the limits), or stop reading there.", {},
      word<wds::kOnFaultWords>("on_fault", &FaultPolicy::on_fault,
                               "\"fail\" raises, \"skip\" masks, \"stop\" ends the epoch."),
      member("max_faults", &FaultPolicy::max_faults,
             "Samples that may be skipped in an epoch by a process, those before the state that it "
             "continues from included; one more raises ExhaustedError. Below 0: no limit."),
      member("max_fault_rate", &FaultPolicy::max_fault_rate,
             "The same as a share of the samples read, from the 1,000th on; 1: no limit."),
      member("lenient", &FaultPolicy::lenient,
             "Accepts interleaved keys, and a missing end marker between two samples."),
      member("concatenated", &FaultPolicy::concatenated,
             "Goes on behind an end marker if another archive follows; else that is a fault."),
      member("require_index", &FaultPolicy::require_index,
             "A missing or damaged index is a fault; else the shard is read without it."));
}

void bind_structs(nb::module_& module) {
  bind_shuffle(module);
  bind_faults(module);
  bind_struct<EpochOptions, 0>(
      module, "Epochs", "What an epoch is. Without arguments: every sample once.", {},
      member("samples", &EpochOptions::samples,
             "So many samples over all ranks, cut short or repeated: by each stream those of its "
             "own, so "
             "that in a set of fewer than some hundred samples a stream come some more often than "
             "others (`passes` repeats all alike). 0: as many as there are."),
      member("batches", &EpochOptions::batches,
             "So many batches of each rank, cut short or filled up with masked ones. 0: as many as "
             "there are."),
      member("passes", &EpochOptions::passes,
             "Every sample so many times, of a mix every set; with `samples` whichever is less. 0: "
             "once, or as often as `samples` takes."),
      member("resampled", &EpochOptions::resampled,
             "Shards are drawn with replacement, without end, of a mix each set's own: it needs "
             "`samples` or `batches`."));
  bind_struct<Mix, 1>(
      module, "Mix",
      "Several sets, each with its share of the samples: [(0.7, \"a.tar\"), (0.3, \"b.tar\")].", {},
      member("parts", &Mix::parts, "(weight, shards) of each set."),
      word<wds::kMixEndWords>("end", &Mix::end,
                              "When a set has had its passes, the epoch ends (\"stop\"), the set "
                              "is repeated (\"repeat\"), or the others go on without it "
                              "(\"drop\")."));
}

using SpecValue = std::variant<std::vector<std::string>, Mix>;

void set_shards(pipeline::Pipeline::Builder& builder, const SpecValue& value) {
  if (const Mix* mix = std::get_if<Mix>(&value)) {
    require(!mix->parts.empty(), "a mix needs at least one set");
    std::vector<double> weights;
    for (const auto& [weight, spec] : mix->parts) {
      builder.mix(weight, spec);
      weights.push_back(weight);
    }
    static_cast<void>(wds::whole_weights(weights));
    builder.mix(mix->end);
    return;
  }
  const auto& specs = std::get<std::vector<std::string>>(value);
  require(!specs.empty(), "no shards are given");
  for (const std::string& spec : specs) builder.shards(spec);
}

void set_retry(PipelineArguments& options, std::optional<double> seconds) {
  constexpr double kMost = 1e9;
  if (!seconds) return;
  require(*seconds >= 0 && *seconds <= kMost, "retry_for is a number of seconds, at least 0");
  options.retry_for = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * *seconds));
}

/// One argument of Pipeline(). Throws: type_error, which names it, where it is no T: nanobind's own
/// message would list all of them, and it takes True for 1.
template <typename T>
T argument(const nb::kwargs& given, const char* name) {
  constexpr bool kIsFlag = std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>;
  T value{};
  const nb::object one = given[name];
  if ((!kIsFlag && nb::isinstance<nb::bool_>(one)) || !nb::try_cast(one, value))
    throw nb::type_error(fmt::format("Pipeline({}={}): not a value that this argument takes", name,
                                     printable(nb::repr(one).c_str()))
                             .c_str());
  return value;
}

template <typename T>
std::optional<T> optional_argument(const nb::kwargs& given, const char* name) {
  return argument<std::optional<T>>(given, name);
}

ResourceValues resource_values(const nb::kwargs& given) {
  return {.threads = optional_argument<int>(given, "threads"),
          .io_threads = optional_argument<int>(given, "io_threads"),
          .prefetch = optional_argument<int>(given, "prefetch"),
          .memory = optional_argument<BytesValue>(given, "memory"),
          .autotune = optional_argument<bool>(given, "autotune")};
}

void set_samples(pipeline::Pipeline::Builder& builder, const nb::kwargs& given) {
  set_shards(builder, argument<SpecValue>(given, "spec"));
  for (const std::string& spec : argument<std::vector<std::string>>(given, "join"))
    builder.join(spec);
  builder.skip(argument<std::uint64_t>(given, "skip"));
  if (const auto take = optional_argument<std::uint64_t>(given, "take")) builder.take(*take);
}

void set_pipeline(pipeline::PipelineOptions& options, const nb::kwargs& given) {
  options.fields = named_fields(argument<FieldValues>(given, "fields"));
  options.batch = {
      .size = argument<std::int64_t>(given, "batch_size"),
      .uneven = value_of("uneven", argument<std::string>(given, "uneven"), pipeline::kUnevenWords),
      .fill = argument<bool>(given, "fill")};
  options.mixup.mixup = argument<double>(given, "mixup");
  options.mixup.cutmix = argument<double>(given, "cutmix");
  options.shuffle = optional_argument<ShuffleOptions>(given, "shuffle").value_or(ShuffleOptions());
  options.epochs = optional_argument<EpochOptions>(given, "epochs").value_or(EpochOptions());
  options.epochs.count = 0;  // Python's loop decides
  options.faults = optional_argument<FaultPolicy>(given, "faults").value_or(FaultPolicy());
  options.resources = resources_of(resource_values(given));
  options.indexed = argument<bool>(given, "indexed");
  options.scan = argument<bool>(given, "scan");
}

void init_options(PipelineArguments* self, const nb::kwargs& given) {
  PipelineArguments options;
  options.streams = argument<int>(given, "streams");
  require(options.streams >= 0, "streams must be at least 0");
  options.allow_pipe = argument<bool>(given, "allow_pipe");
  set_samples(options.builder, given);
  set_pipeline(options.builder.options(), given);
  set_functions(options, argument<std::vector<FunctionValue>>(given, "functions"),
                argument<double>(given, "function_timeout"));
  set_cache(options, optional_argument<std::string>(given, "cache"),
            optional_argument<BytesValue>(given, "cache_size"));
  set_decoded_cache(options, optional_argument<BytesValue>(given, "cache_decoded"),
                    optional_argument<std::string>(given, "cache_decoded_in"));
  set_retry(options, optional_argument<double>(given, "retry_for"));
  pipeline::check_values(options.pipeline());
  options.arrays = pipeline::batch_fields(options.pipeline());
  new (self) PipelineArguments(std::move(options));
}

/// Name, type, shape and bytes of each of a batch's arrays.
nb::list arrays_of(const PipelineArguments& options) {
  nb::list arrays;
  for (const pipeline::BatchField& field : options.arrays) {
    const std::string_view dtype = decode::dtype_name(field.spec.dtype);
    nb::list shape;
    for (const std::int64_t size : field.spec.shape) shape.append(size);
    arrays.append(nb::make_tuple(field.name, nb::str(dtype.data(), dtype.size()), nb::tuple(shape),
                                 field.spec.num_bytes()));
  }
  return arrays;
}

}  // namespace

void bind_options(nb::module_& module) {
  bind_structs(module);
  nb::class_<PipelineArguments>(module, "Options", "The arguments of Pipeline, checked.")
      .def("__init__", &init_options, nb::arg("arguments"))
      .def_prop_ro("bfloat16_fields", &PipelineArguments::bfloat16_fields)
      .def_prop_ro("arrays", &arrays_of,
                   nb::sig("def arrays(self) -> list[tuple[str, str, tuple[int, ...], int]]"));
  module.def("usable_cores", &usable_cores, "The cores that this process may use.");
  module.def("printable_url", &io::printable_url, nb::arg("url"),
             "A URL as messages show it, without its secrets.");
}

}  // namespace millrace::python
