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

/// A flat buffer's values, borrowed: in the host's memory, or in a backend's.
class FlatValues {
 public:
  FlatValues() = default;
  FlatValues(std::span<float> host) : host_(host) {}     // NOLINT: a buffer is its values
  FlatValues(std::vector<float>& host) : host_(host) {}  // NOLINT: likewise
  FlatValues(Backend& backend, DeviceSpan values) : backend_(&backend), device_(values) {}

  std::size_t size() const { return backend_ == nullptr ? host_.size() : device_.size(); }
  /// Copies the values from `offset` on to and from the host. Requires: they lie in the buffer.
  void read(std::size_t offset, std::span<float> into) const;
  void write(std::size_t offset, std::span<const float> from) const;

 private:
  std::span<float> host_;
  Backend* backend_ = nullptr;
  DeviceSpan device_;
};

/// A flat buffer and its table, borrowed; each tensor's name is `prefix` and the parameter's.
struct FlatTensors {
  std::string prefix = {};
  const ParameterTable* table = nullptr;
  FlatValues values = {};
};

/// Writes every entry of `tensors`. Does not finish() the sink.
void write_flat_tensors(io::ByteSink& sink, const std::vector<FlatTensors>& tensors);

/// Copies the file's tensors into `into` by name. A parameter that several layers share may be in
/// the file under any of their names. Throws: InvalidArgument, before anything is copied, naming
/// tensors that are missing, unknown or of another shape, or tied ones that differ in the file.
void copy_flat_tensors(const Safetensors& file, const std::vector<FlatTensors>& into);

/// Checks as copy_flat_tensors() without copying: the values of `like` may be empty. Throws: as
/// copy_flat_tensors().
void check_flat_tensors(const Safetensors& file, const std::vector<FlatTensors>& like);

/// Copies tensors. Requires: check_flat_tensors() or check_weights() has passed.
void copy_checked_tensors(const Safetensors& file, const std::vector<FlatTensors>& into);

struct InitOptions {
  /// The model's last layer keeps its start values, whatever the file has under its name, and
  /// tensors that the model does not have are ignored. Refused if all of that layer's weights are
  /// tied to another's.
  bool replace_head = false;
};

struct LoadedWeights {
  std::vector<std::string> kept;  ///< names that kept their start values
  /// Ties that file and model do not both have; embeddings of positions that were resized.
  std::vector<std::string> warnings;
};

/// The tensors of a .safetensors file, with torchvision's names; or of the model in a checkpoint or
/// a run's folder (its best one; `log` is warned of another), the EMA of its weights if there is
/// one. Throws: Truncated, Corrupt, Unsupported; as the opener; Cancelled after the opener's stop.
Safetensors read_weights(const std::string& path, const io::Opener& opener = io::UrlOpener(),
                         const Log& log = {});

/// What load_weights() would return for `file`. The values of `like` may be empty, so that nothing
/// need be allocated before the file is known to fit. Throws: as copy_flat_tensors(), except for
/// ties, which are warnings.
LoadedWeights check_weights(const Safetensors& file, const std::vector<FlatTensors>& like,
                            const InitOptions& options = {});

/// Copies the tensors of read_weights() to `into`; embeddings of positions of another square grid
/// are resized (Parameter::grid_height). Throws: as read_weights(), check_weights().
LoadedWeights load_weights(const std::string& path, const std::vector<FlatTensors>& into,
                           const InitOptions& options = {},
                           const io::Opener& opener = io::UrlOpener(), const Log& log = {});

/// Writes one safetensors file, replacing an earlier one atomically. Throws: Io.
void save_weights(const std::string& path, const std::vector<FlatTensors>& tensors);

}  // namespace millrace::trainer
