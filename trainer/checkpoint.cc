#include "trainer/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <span>
#include <tuple>

#include "io/base/error.h"
#include "io/byte_sink.h"
#include "io/local_path.h"
#include "trainer/detail/flat_math.h"
#include "trainer/detail/position_grids.h"
#include "trainer/detail/store/checkpoint_files.h"
#include "trainer/detail/store/checkpoint_folder.h"
#include "trainer/detail/store/checkpoint_place.h"
#include "trainer/detail/store/stored_folder.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kEmaFile = "ema.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr std::uint64_t kMaxStateBytes = std::uint64_t{256} << 20;

bool has_finite_values(const FlatValues& values) {
  constexpr std::size_t kPieceValues = std::size_t{1} << 20;
  std::vector<float> piece(std::min(values.size(), kPieceValues));
  for (std::size_t at = 0; at < values.size(); at += piece.size()) {
    const std::span<float> part =
        std::span(piece).first(std::min(piece.size(), values.size() - at));
    values.read(at, part);
    if (!flat::all_finite(part)) return false;
  }
  return true;
}

// A model that has diverged must never replace a good one.
void check_finite(const std::vector<FlatTensors>& tensors) {
  if (std::ranges::all_of(tensors,
                          [](const FlatTensors& one) { return has_finite_values(one.values); })) {
    return;
  }
  throw Error(ErrorCode::kNotFinite, "the model holds values that are not finite; not saved");
}

TrainState state_of(const detail::FolderReader& folder) {
  auto state = TrainState::from_json(std::string(folder.read(kStateFile, kMaxStateBytes).text()));
  state.run = folder.manifest().run;
  return state;
}

/// The largest file of such tensors: twice their size in float32, for another dtype.
std::uint64_t bytes_for(const std::vector<FlatTensors>& tensors) {
  constexpr std::uint64_t kSlack = std::uint64_t{64} << 20;
  std::uint64_t values = 0;
  for (const FlatTensors& flat : tensors) values += flat.table->num_values();
  return 2 * sizeof(float) * values + kMaxSafetensorsHeader + kSlack;
}

/// Whether embeddings of positions of another grid are resized, as for evaluation.
enum class Grids { kAsStored, kAnySize };

Safetensors read_tensors(const detail::FolderReader& folder, const std::string& name,
                         const std::vector<FlatTensors>& like, Grids grids = Grids::kAsStored) {
  try {
    Safetensors file = parse_safetensors(folder.read(name, bytes_for(like)));
    if (grids == Grids::kAnySize) static_cast<void>(detail::resize_positions(file, like));
    check_flat_tensors(file, like);
    return file;
  } catch (Error& error) {
    error.annotate({.member = name});
    throw;
  }
}

const char* model_to_use(const detail::FolderReader& folder) {
  return folder.has(kEmaFile) ? kEmaFile : kModelFile;
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
  for (const std::string& name : io::names_in(folder)) {
    std::string path = (fs::path(folder) / name).string();
    if (name.front() != '.' && fs::is_directory(path)) paths.push_back(std::move(path));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// Throws: InvalidArgument for another run's than `run`; empty: any.
void check_run(const TrainState& state, const std::string& run, const std::string& path) {
  if (run.empty() || state.run.empty() || state.run == run) return;
  throw Error(ErrorCode::kInvalidArgument, "it is of another run than last", {.url = path});
}

}  // namespace

namespace detail {

CheckpointFiles checkpoint_files(const TrainState& state, const CheckpointTensors& tensors) {
  check_finite(tensors.model);
  std::uint64_t values = 0;
  for (const auto* part : {&tensors.model, &tensors.optimizer, &tensors.ema})
    for (const FlatTensors& flat : *part) values += flat.table->num_values();
  const auto flat = [](const std::vector<FlatTensors>& part) {
    return [part](io::ByteSink& sink) { write_flat_tensors(sink, part); };
  };
  CheckpointFiles files{.writers = {{kModelFile, flat(tensors.model)},
                                    {kOptimizerFile, flat(tensors.optimizer)},
                                    {kStateFile,
                                     [text = state.to_json()](io::ByteSink& sink) {
                                       sink.write(std::as_bytes(std::span(text)));
                                     }}},
                        .run = state.run,
                        .tensor_bytes = values * sizeof(float)};
  if (!tensors.ema.empty()) files.writers[kEmaFile] = flat(tensors.ema);
  return files;
}

}  // namespace detail

void save_checkpoint(const std::string& folder, const std::string& name, const TrainState& state,
                     const CheckpointTensors& tensors, const io::Opener& opener) {
  const auto place =
      detail::open_checkpoint_place(folder, opener, {},
                                    {.saved = [](const std::string&) {},
                                     .kept = [](const std::string&, const std::string&) {},
                                     .progress = [](const CheckpointStep&) {}});
  place->save(name, detail::checkpoint_files(state, tensors));
  place->finish();
}

void copy_checkpoint(const std::string& from, const std::string& folder, const std::string& name,
                     const io::Opener& opener) {
  const io::UrlOpener local;
  const detail::FolderReader reader(from, io::is_network_url(from) ? opener : local);
  detail::StoredFiles files = detail::files_of(reader);
  if (io::is_network_url(folder))
    return detail::write_stored_folder(opener, folder + "/" + name, files, {});
  detail::CheckpointFiles copied{.writers = {}, .run = files.run};
  for (auto& [file, stored] : files.files) copied.writers[file] = std::move(stored.write);
  detail::write_folder(folder, name, copied);
}

TrainState load_checkpoint(const std::string& path, const std::string& model,
                           const CheckpointTensors& tensors, const io::Opener& opener) {
  return annotated(path, [&] {
    const detail::FolderReader folder(path, opener);
    TrainState state = state_of(folder);
    check_model(state, model);
    std::vector<std::pair<Safetensors, const std::vector<FlatTensors>*>> files;
    const auto read = [&](const char* name, const std::vector<FlatTensors>& into) {
      if (!into.empty()) files.emplace_back(read_tensors(folder, name, into), &into);
    };
    read(kModelFile, tensors.model);
    read(kOptimizerFile, tensors.optimizer);
    // A run that begins to keep an EMA starts it with the weights.
    read(model_to_use(folder), tensors.ema);
    for (const auto& [file, into] : files) copy_checked_tensors(file, *into);
    return state;
  });
}

Safetensors read_checkpoint_model(const std::string& path, const std::string& model,
                                  const std::vector<FlatTensors>& like, const io::Opener& opener) {
  return annotated(path, [&] {
    const detail::FolderReader folder(path, opener);
    check_model(state_of(folder), model);
    return read_tensors(folder, model_to_use(folder), like, Grids::kAnySize);
  });
}

void load_checkpoint_model(const std::string& path, const std::string& model,
                           const std::vector<FlatTensors>& into, const io::Opener& opener) {
  copy_checked_tensors(read_checkpoint_model(path, model, into, opener), into);
}

TrainState read_checkpoint_state(const std::string& path, const io::Opener& opener) {
  return annotated(path, [&] {
    const detail::FolderReader folder(path, opener);
    // All of a local checkpoint is checked, because the caller is about to choose it.
    if (!io::is_network_url(path)) folder.verify();
    return state_of(folder);
  });
}

bool is_checkpoint(const std::string& path, const io::Opener& opener) {
  try {
    static_cast<void>(detail::FolderReader(path, opener));
    return true;
  } catch (const Error& error) {
    if (cannot_be_seen(error)) return false;
    if (error.code() == ErrorCode::kCorrupt) return true;  // its reader reports why
    throw;
  }
}

std::string find_checkpoint(const std::string& path, const std::string& name,
                            const io::Opener& opener, const Log& log) {
  const auto first_of = [&](std::initializer_list<std::string> places) {
    for (const std::string& place : places)
      if (is_checkpoint(place, opener)) return place;
    return std::string();
  };
  std::string found = first_of({path, path + "/checkpoints/" + name, path + "/" + name});
  if (!found.empty()) return found;
  const std::string other = name == "best" ? "last" : "best";
  found = first_of({path + "/checkpoints/" + other, path + "/" + other});
  if (found.empty()) return path;
  log.warn("there is no checkpoint " + name + " in " + io::printable_url(path) + ": using its " +
           other);
  return found;
}

void recover_checkpoints(const std::string& folder, const Log& log) {
  if (!io::is_network_url(folder)) detail::recover_folders(folder, log);
}

std::string checkpoint_run(const std::string& path, const io::Opener& opener) {
  try {
    return detail::FolderReader(path, opener).manifest().run;
  } catch (const Error& error) {
    if (cannot_be_seen(error) || error.code() == ErrorCode::kCorrupt) return {};
    throw;
  }
}

NewestCheckpoint find_newest_checkpoint(const std::string& folder, const Log& log,
                                        const io::Opener& opener) {
  NewestCheckpoint newest;
  const auto skip = [&](const Error& error) {
    const std::string line = "checkpoint skipped: " + std::string(error.what());
    // One without its manifest was never finished.
    if (error.code() == ErrorCode::kNotFound) return log.info(line);
    log.warn(line);
    newest.skipped.push_back(error);
  };
  std::tuple<std::int64_t, std::int64_t> most{-1, -1};
  const bool is_stored = io::is_network_url(folder);
  const std::string run = checkpoint_run(folder + "/last", opener);
  for (const std::string& path :
       is_stored ? detail::whole_stored_folders(opener, folder, skip) : folders_in(folder)) {
    try {
      const TrainState state = read_checkpoint_state(path, opener);
      check_run(state, run, path);
      // At equal steps `last`, which includes the evaluation after them, sorts after `best`.
      const std::tuple steps{state.global_step, state.epoch};
      if (steps >= most) {
        newest.path = path;
        most = steps;
      }
    } catch (const Error& error) {
      const bool is_network =
          error.code() == ErrorCode::kIo || error.code() == ErrorCode::kCancelled;
      if (is_stored && is_network) throw;
      skip(error);
    }
  }
  return newest;
}

}  // namespace millrace::trainer
