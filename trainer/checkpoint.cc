#include "trainer/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "io/base/error.h"
#include "io/byte_sink.h"
#include "io/opener.h"
#include "trainer/detail/checkpoint_folder.h"
#include "trainer/detail/flat_math.h"
#include "trainer/safetensors.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kEmaFile = "ema.safetensors";
constexpr const char* kStateFile = "state.json";

const io::Bytes& file_of(const detail::FolderFiles& files, const std::string& name) {
  const auto found = files.find(name);
  if (found == files.end()) {
    throw Error(ErrorCode::kCorrupt, "a checkpoint lacks one of its files", {.member = name});
  }
  return found->second;
}

// A model that has blown up must never take a good one's place.
void check_finite(const std::vector<FlatTensors>& tensors) {
  for (const FlatTensors& one : tensors) {
    if (!flat::all_finite(one.values)) {
      throw Error(ErrorCode::kCorrupt, "the model holds values that are not finite; not saved");
    }
  }
}

TrainState state_of(const detail::FolderFiles& files) {
  return TrainState::from_json(std::string(file_of(files, kStateFile).text()));
}

void copy_file(const detail::FolderFiles& files, const std::string& name,
               const std::vector<FlatTensors>& into) {
  try {
    copy_flat_tensors(parse_safetensors(file_of(files, name)), into);
  } catch (Error& error) {
    error.annotate({.member = name});
    throw;
  }
}

void check_model(const TrainState& state, const std::string& model) {
  if (state.model == model) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the checkpoint is of model " + state.model + ", the run of " + model);
}

template <typename Work>
auto annotated(const std::string& path, const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    error.annotate({.url = path, .stage = "checkpoint"});
    throw;
  }
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && name.front() != '.') paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

void save_checkpoint(const std::string& folder, const std::string& name, const TrainState& state,
                     const CheckpointTensors& tensors) {
  check_finite(tensors.model);
  const std::string text = state.to_json();
  const auto flat = [](const std::vector<FlatTensors>& part) {
    return [&part](io::ByteSink& sink) { write_flat_tensors(sink, part); };
  };
  std::map<std::string, detail::FileWriter> files{
      {kModelFile, flat(tensors.model)},
      {kOptimizerFile, flat(tensors.optimizer)},
      {kStateFile, [&](io::ByteSink& sink) { sink.write(std::as_bytes(std::span(text))); }}};
  if (!tensors.ema.empty()) files[kEmaFile] = flat(tensors.ema);
  detail::write_folder(folder, name, files);
}

TrainState load_checkpoint(const std::string& path, const std::string& model,
                           const CheckpointTensors& tensors) {
  return annotated(path, [&] {
    const detail::FolderFiles files = detail::read_folder(path);
    TrainState state = state_of(files);
    check_model(state, model);
    if (!tensors.model.empty()) copy_file(files, kModelFile, tensors.model);
    if (!tensors.optimizer.empty()) copy_file(files, kOptimizerFile, tensors.optimizer);
    // A run that begins to keep a mean begins it at the weights.
    if (!tensors.ema.empty()) {
      copy_file(files, files.contains(kEmaFile) ? kEmaFile : kModelFile, tensors.ema);
    }
    return state;
  });
}

void load_checkpoint_model(const std::string& path, const std::string& model,
                           const std::vector<FlatTensors>& into) {
  annotated(path, [&] {
    const detail::FolderFiles files = detail::read_folder(path);
    check_model(state_of(files), model);
    copy_file(files, files.contains(kEmaFile) ? kEmaFile : kModelFile, into);
  });
}

TrainState read_checkpoint_state(const std::string& path) {
  // A local checkpoint is checked whole: whoever asks is about to choose it.
  return state_of(detail::read_folder(path, io::is_network_url(path) ? kStateFile : ""));
}

std::string find_newest_checkpoint(const std::string& folder, const Log& log) {
  std::string newest;
  std::tuple<std::int64_t, std::int64_t> most{-1, -1};
  for (const std::string& path : folders_in(folder)) {
    try {
      const TrainState state = read_checkpoint_state(path);
      // Equal steps: `last` knows of the evaluation after them, and sorts after `best`.
      const std::tuple steps{state.global_step, state.epoch};
      if (steps >= most) {
        newest = path;
        most = steps;
      }
    } catch (const Error& error) {
      log.warn("checkpoint passed over: " + std::string(error.what()));
    }
  }
  return newest;
}

}  // namespace millrace::trainer
