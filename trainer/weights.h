// Weights as named tensors: between flat buffers, the host's or a backend's, and safetensors files.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "io/byte_sink.h"
#include "io/opener.h"
#include "trainer/device_span.h"
#include "trainer/parameters.h"
#include "trainer/safetensors.h"

namespace millrace::trainer {

class Backend;

/// A flat buffer's values, borrowed: the host's own, or in a backend's memory.
class FlatValues {
 public:
  FlatValues() = default;
  FlatValues(std::span<float> host) : host_(host) {}     // NOLINT: a buffer is its values
  FlatValues(std::vector<float>& host) : host_(host) {}  // NOLINT: likewise
  FlatValues(Backend& backend, DeviceSpan values) : backend_(&backend), device_(values) {}

  std::size_t size() const { return backend_ == nullptr ? host_.size() : device_.size(); }
  /// Between those from `offset` on and the host.
  void read(std::size_t offset, std::span<float> into) const;
  void write(std::size_t offset, std::span<const float> from) const;

 private:
  std::span<float> host_;
  Backend* backend_ = nullptr;
  DeviceSpan device_;
};

/// A flat buffer and its table, borrowed; `prefix` goes before each tensor's name.
struct FlatTensors {
  std::string prefix = {};
  const ParameterTable* table = nullptr;
  FlatValues values = {};
};

/// Writes every entry of `tensors`. Does not finish() the sink.
void write_flat_tensors(io::ByteSink& sink, const std::vector<FlatTensors>& tensors);

/// Copies the file's tensors into `into` by name. Throws: InvalidArgument, naming what is missing,
/// left over or of another shape, or a tie that the file does not hold to; then nothing was copied.
/// A parameter that several layers share may be there under any of their names.
void copy_flat_tensors(const Safetensors& file, const std::vector<FlatTensors>& into);

/// What copy_flat_tensors() would refuse, without copying: the values of `like` may be empty.
/// Throws: as copy_flat_tensors().
void check_flat_tensors(const Safetensors& file, const std::vector<FlatTensors>& like);

/// Copies tensors that were checked: by check_flat_tensors() or check_weights().
void copy_checked_tensors(const Safetensors& file, const std::vector<FlatTensors>& into);

struct InitOptions {
  /// The model's last layer keeps its start values, whatever the file has under its name, and
  /// tensors that the model does not know are passed over. Refused where all of that layer's
  /// weights are tied to another's.
  bool replace_head = false;
};

struct LoadedWeights {
  std::vector<std::string> kept;      ///< names that kept their start values
  std::vector<std::string> warnings;  ///< ties that file and model do not both have
};

/// The tensors of a .safetensors file, by torchvision's names; or those of the model in a
/// checkpoint or a run's folder (its best one), the mean of its weights where there is one. Throws:
/// Truncated, Corrupt, Unsupported, what opening throws; Cancelled, by the opener's stop.
Safetensors read_weights(const std::string& path, const io::Opener& opener = io::UrlOpener());

/// What of `file` load_weights() would take; values of `like` may be empty, so that nobody
/// allocates them before the file is known to fit. Throws: as copy_flat_tensors(), but for ties.
LoadedWeights check_weights(const Safetensors& file, const std::vector<FlatTensors>& like,
                            const InitOptions& options = {});

/// Loads what read_weights() gives. Throws: as check_weights().
LoadedWeights load_weights(const std::string& path, const std::vector<FlatTensors>& into,
                           const InitOptions& options = {},
                           const io::Opener& opener = io::UrlOpener());

/// Writes one safetensors file that appears whole, replacing one that is there.
void save_weights(const std::string& path, const std::vector<FlatTensors>& tensors);

}  // namespace millrace::trainer
