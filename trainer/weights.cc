#include "trainer/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <string_view>

#include "io/base/error.h"
#include "trainer/backend.h"
#include "trainer/checkpoint.h"
#include "trainer/detail/position_grids.h"
#include "trainer/detail/store/checkpoint_folder.h"
#include "trainer/detail/weight_ties.h"

namespace millrace::trainer {
namespace {

constexpr std::size_t kMaxWeightsBytes = std::size_t{64} << 30;
constexpr std::size_t kPieceValues = std::size_t{1} << 20;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (const std::int64_t dim : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + ")";
}

// A file may lack PyTorch's counter of batches, or have one that the model lacks: it has no effect
// on the outputs.
bool is_counter(std::string_view name) { return name.ends_with("num_batches_tracked"); }

// A scalar may be written as () or (1).
bool same_shape(const Tensor& tensor, const Parameter& entry) {
  return tensor.shape == entry.shape || (tensor.num_values() == 1 && entry.size == 1);
}

struct Mismatch {
  std::vector<std::string> entries;  // parameters that the file has no values for
  std::vector<std::string> lines;    // all differences, for people
};

void compare_entry(const Safetensors& file, const std::string& prefix, const Parameter& entry,
                   Mismatch& found) {
  const std::string name = prefix + entry.name;
  const Tensor* tensor = detail::tensor_for(file, prefix, entry);
  if (tensor == nullptr) {
    if (is_counter(name)) return;
    found.entries.push_back(name);
    found.lines.push_back(name + " is missing");
  } else if (!same_shape(*tensor, entry)) {
    found.entries.push_back(name);
    found.lines.push_back(name + " is " + shape_text(tensor->shape) + " in the file and " +
                          shape_text(entry.shape) + " in the model");
  }
}

Mismatch compare(const Safetensors& file, const std::vector<FlatTensors>& into) {
  Mismatch found;
  std::set<std::string, std::less<>> known;
  for (const FlatTensors& flat : into) {
    for (const Parameter& entry : flat.table->entries()) {
      known.insert(flat.prefix + entry.name);
      for (const std::string& alias : entry.aliases) known.insert(flat.prefix + alias);
      compare_entry(file, flat.prefix, entry, found);
    }
  }
  for (const auto& [name, tensor] : file.tensors) {
    if (!known.contains(name) && !is_counter(name)) {
      found.lines.push_back(name + " is not in the model");
    }
  }
  return found;
}

Safetensors read_checkpoint_weights(const std::string& path, const io::Opener& opener) {
  const detail::FolderReader folder(path, opener);
  const char* name = folder.has("ema.safetensors") ? "ema.safetensors" : "model.safetensors";
  return parse_safetensors(folder.read(name, kMaxWeightsBytes));
}

[[noreturn]] void refuse(const std::vector<std::string>& lines) {
  constexpr std::size_t kShown = 4;
  std::string message = "weights of another model: ";
  for (std::size_t i = 0; i < std::min(kShown, lines.size()); ++i) {
    message += (i > 0 ? "; " : "") + lines[i];
  }
  if (lines.size() > kShown) message += "; and " + std::to_string(lines.size() - kShown) + " more";
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// A piece at a time: a model's largest tensor need not fit in memory twice.
void copy_tensor(const Tensor& tensor, const FlatValues& into, std::size_t offset) {
  const std::size_t size = tensor.num_values();
  const std::size_t bytes = tensor_type_size(tensor.type);
  std::vector<float> piece(std::min(size, kPieceValues));
  for (std::size_t at = 0; at < size; at += piece.size()) {
    const std::size_t count = std::min(piece.size(), size - at);
    const Tensor part{tensor.type, {}, tensor.data.slice(at * bytes, count * bytes)};
    part.copy_to(std::span(piece).first(count));
    into.write(offset + at, std::span(piece).first(count));
  }
}

/// Throws: Corrupt for start weights that training cannot begin with.
void check_start_weights(const Safetensors& file, const std::vector<FlatTensors>& into,
                         const std::vector<std::string>& kept) {
  std::vector<float> values;
  for (const FlatTensors& flat : into) {
    for (const Parameter& entry : flat.table->entries()) {
      const std::string name = flat.prefix + entry.name;
      const Tensor* tensor = detail::tensor_for(file, flat.prefix, entry);
      if (tensor == nullptr || std::ranges::count(kept, name) > 0) continue;
      values.resize(tensor->num_values());
      tensor->copy_to(values);
      const auto bad = std::ranges::count_if(values, [](float one) { return !std::isfinite(one); });
      if (bad > 0)
        throw Error(ErrorCode::kCorrupt, std::to_string(bad) + " of " +
                                             std::to_string(values.size()) + " values of " + name +
                                             " are not finite numbers");
    }
  }
}

void copy_except(const Safetensors& file, const std::vector<FlatTensors>& into,
                 const std::vector<std::string>& kept) {
  for (const FlatTensors& flat : into) {
    for (const Parameter& entry : flat.table->entries()) {
      const std::string name = flat.prefix + entry.name;
      const Tensor* tensor = detail::tensor_for(file, flat.prefix, entry);
      const bool skip = std::find(kept.begin(), kept.end(), name) != kept.end();
      if (skip || tensor == nullptr) continue;
      copy_tensor(*tensor, flat.values, entry.offset);
    }
  }
}

std::vector<std::string> head_of(const ParameterTable& table) {
  std::vector<std::string> names;
  for (const Parameter& entry : table.entries()) {
    if (layer_of(entry.name) == table.head()) names.push_back(entry.name);
  }
  if (names.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the last layer, " + table.head() +
                    ", has no weights of its own to replace: they are tied to another layer's");
  }
  return names;
}

// Whether the last layer, which --replace-head leaves out, is all that differs.
bool differs_in_head_only(const Mismatch& found, const ParameterTable& table) {
  return found.lines.size() == found.entries.size() &&
         std::ranges::all_of(found.entries, [&](const std::string& name) {
           return layer_of(name) == table.head();
         });
}

// The names that keep their start values. Throws: InvalidArgument for more than a replaced head.
std::vector<std::string> left_out(const Mismatch& found, const std::vector<FlatTensors>& into,
                                  const InitOptions& options) {
  if (!options.replace_head) {
    if (!found.lines.empty()) refuse(found.lines);
    return {};
  }
  std::vector<std::string> head = head_of(*into.front().table);
  for (const std::string& name : found.entries) {
    if (std::ranges::find(head, name) == head.end()) refuse(found.lines);
  }
  return head;
}

/// As check_weights(), with what helps where only the last layer is another.
void hint_at_head(const Safetensors& file, const std::vector<FlatTensors>& into) {
  Mismatch found = compare(file, into);
  if (found.lines.empty() || !differs_in_head_only(found, *into.front().table)) return;
  found.lines.back() += ": --replace-head starts the last layer anew";
  refuse(found.lines);
}

}  // namespace

void FlatValues::read(std::size_t offset, std::span<float> into) const {
  if (backend_ != nullptr) return backend_->read(device_.subspan(offset, into.size()), into);
  std::ranges::copy(host_.subspan(offset, into.size()), into.begin());
}

void FlatValues::write(std::size_t offset, std::span<const float> from) const {
  if (backend_ != nullptr) return backend_->write(from, device_.subspan(offset, from.size()));
  std::ranges::copy(from, host_.begin() + static_cast<std::ptrdiff_t>(offset));
}

void write_flat_tensors(io::ByteSink& sink, const std::vector<FlatTensors>& tensors) {
  std::vector<TensorView> views;
  for (const FlatTensors& flat : tensors) {
    for (const Parameter& entry : flat.table->entries()) {
      views.push_back({.name = flat.prefix + entry.name,
                       .shape = entry.shape,
                       .read = [&](std::size_t at, std::span<std::byte> into) {
                         std::vector<float> values(into.size() / sizeof(float));
                         flat.values.read(entry.offset + at / sizeof(float), values);
                         std::memcpy(into.data(), values.data(), into.size());
                       }});
    }
  }
  write_safetensors(sink, views, {{"format", "pt"}});
}

void check_flat_tensors(const Safetensors& file, const std::vector<FlatTensors>& like) {
  const Mismatch found = compare(file, like);
  if (!found.lines.empty()) refuse(found.lines);
  const auto broken = detail::ties_broken_in_file(file, like);
  if (!broken.empty()) refuse(broken);
}

void copy_flat_tensors(const Safetensors& file, const std::vector<FlatTensors>& into) {
  check_flat_tensors(file, into);
  copy_except(file, into, {});
}

void copy_checked_tensors(const Safetensors& file, const std::vector<FlatTensors>& into) {
  copy_except(file, into, {});
}

Safetensors read_weights(const std::string& path, const io::Opener& opener, const Log& log) {
  const bool one_file = path.ends_with(".safetensors") || std::filesystem::is_regular_file(path);
  if (!one_file) return read_checkpoint_weights(find_checkpoint(path, "best", opener, log), opener);
  return parse_safetensors(io::read_object(opener, path, kMaxWeightsBytes));
}

LoadedWeights check_weights(const Safetensors& file, const std::vector<FlatTensors>& like,
                            const InitOptions& options) {
  LoadedWeights found{.kept = left_out(compare(file, like), like, options),
                      .warnings = detail::ties_broken_in_file(file, like)};
  std::ranges::move(detail::ties_lost_in_model(file, like), std::back_inserter(found.warnings));
  return found;
}

LoadedWeights load_weights(const std::string& path, const std::vector<FlatTensors>& into,
                           const InitOptions& options, const io::Opener& opener, const Log& log) {
  try {
    Safetensors file = read_weights(path, opener, log);
    const std::vector<std::string> resized = detail::resize_positions(file, into);
    if (!options.replace_head) hint_at_head(file, into);
    LoadedWeights loaded = check_weights(file, into, options);
    loaded.warnings.insert(loaded.warnings.begin(), resized.begin(), resized.end());
    check_start_weights(file, into, loaded.kept);
    copy_except(file, into, loaded.kept);
    return loaded;
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

void save_weights(const std::string& path, const std::vector<FlatTensors>& tensors) {
  const auto sink = io::open_file_sink(path, {.replace = io::Replace::kAtomically});
  write_flat_tensors(*sink, tensors);
  sink->finish();
}

}  // namespace millrace::trainer
