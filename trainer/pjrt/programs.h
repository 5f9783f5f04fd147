// Programs: those of a model that were compiled, each when it is first wanted; and what one is
// called with.
//
//   const CompiledProgram& step = programs.get({.kind = ProgramKind::kStep, .shape = {64, bf16}});
//   Arguments arguments(step.manifest);
//   arguments.give(hlo::Role::kWeight, weights.on(client, 0, table));  ...
//   step.program.run({arguments.take()});
//
// Threads: Programs from any; the others as values.
#pragma once

#include <compare>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "decode/array_view.h"
#include "device/pjrt/client.h"
#include "io/base/log.h"
#include "trainer/events.h"
#include "trainer/hlo/program.h"
#include "trainer/pjrt/flat_buffer.h"
#include "trainer/pjrt/program_store.h"
#include "trainer/step.h"

namespace millrace::trainer {

enum class ProgramKind {
  kStep,          ///< of all replicas, as one
  kGradients,     ///< of a micro-batch, on one device
  kUpdate,        ///< of all replicas, by kGradients' sums
  kSummedUpdate,  ///< the same, by sums of all processes' replicas
  kEvaluation,    ///< on one device
  kPrediction,    ///< likewise
};

struct BatchShape {
  std::int64_t slots = 1;
  decode::DType input = decode::DType::kFloat32;

  auto operator<=>(const BatchShape&) const = default;
};

struct ProgramKey {
  ProgramKind kind = ProgramKind::kStep;
  BatchShape shape = {};

  auto operator<=>(const ProgramKey&) const = default;
};

struct CompiledProgram {
  hlo::Program manifest;
  device::pjrt::Program program;
};

/// Borrowed, but for the client.
struct ProgramsSetup {
  std::shared_ptr<const device::pjrt::Client> client;
  const Model& model;
  const Objective& objective;
  nn::Precision precision = nn::Precision::kBFloat16;
  std::vector<std::pair<std::string, std::int64_t>> flags = {};  ///< CompileOptions::flags
  std::vector<std::int64_t> assignment = {};                     ///< PjrtBackendOptions::assignment
  std::string store = {};  ///< ProgramStore's folder; empty: none
  hlo::Normalisation bytes = {};
  Log log = {};
};

class Programs {
 public:
  explicit Programs(ProgramsSetup setup)
      : setup_(std::move(setup)), store_(setup_.store, *setup_.client) {}

  const device::pjrt::Client& client() const { return *setup_.client; }
  /// Whether programs are of all processes' replicas.
  bool spans_processes() const { return !setup_.assignment.empty(); }
  /// What a batch's images come as, unless the loader was told otherwise.
  decode::DType usual_input() const;

  /// What training programs are made with, before any get() of one; `first` is what a step runs
  /// first. Throws: Unsupported for what has no StableHLO.
  void set_training(const hlo::StepProgramOptions& options, int replicas, ProgramKind first);
  /// Compiles it on the first call; `compiled` is told. Throws: what the first call has thrown, at
  /// every other one, too. Lifetime: this object's.
  const CompiledProgram& get(const ProgramKey& key, std::vector<CompileEvent>& compiled);

 private:
  /// A compilation that failed is not tried again by each device.
  struct Known {
    std::unique_ptr<CompiledProgram> program;
    std::exception_ptr fault;
  };

  hlo::Program make(const ProgramKey& key) const;
  CompiledProgram compile(const ProgramKey& key, std::vector<CompileEvent>& compiled) const;
  CompiledProgram find_or_compile(const ProgramKey& key, hlo::Program manifest,
                                  const std::string& shape) const;

  ProgramsSetup setup_;
  ProgramStore store_;
  hlo::StepProgramOptions training_;
  int replicas_ = 1;
  std::mutex mutex_;
  std::map<ProgramKey, Known> programs_;
};

/// One that a loader may have brought, with others of its batch.
using SharedArray = std::shared_ptr<const device::pjrt::Buffer>;

/// A program's arguments, given by their roles.
class Arguments {
 public:
  /// `program` is borrowed, and so is all that is given.
  explicit Arguments(const hlo::Program& program)
      : program_(program), arguments_(program.arguments.size()) {}

  /// Those with `role` and, of states, with this name, in order.
  void give(hlo::Role role, const DeviceArrays& arrays, const std::string& state = {});
  void give(hlo::Role role, const std::vector<SharedArray>& arrays);
  void give(hlo::Role role, const device::pjrt::Buffer& array);
  /// All, in the program's order. Requires: all were given.
  std::vector<const device::pjrt::Buffer*> take() const;

 private:
  template <typename Arrays, typename Address>
  void give_each(hlo::Role role, const Arrays& arrays, const std::string& state,
                 const Address& address);

  const hlo::Program& program_;
  std::vector<const device::pjrt::Buffer*> arguments_;
};

/// Takes the results with `role` and, of states, with this name out of `results`, in order.
DeviceArrays take_results(const hlo::Program& program, DeviceArrays& results, hlo::Role role,
                          const std::string& state = {});

/// The fields of a batch that a program reads, on a device: inputs, targets, and which slots are
/// valid.
struct BatchArrays {
  BatchShape shape = {};
  std::vector<SharedArray> inputs, targets, valid;

  void give_to(Arguments& arguments) const;
};

BatchShape shape_of(const pipeline::Batch& batch, const Objective& objective);
/// Those that its device has landed, and copies of the others. Throws: InvalidArgument, by name,
/// for a field of another shape or type than the program's.
BatchArrays land(const device::pjrt::Client& client, std::size_t device,
                 const hlo::Program& program, const pipeline::Batch& batch);
/// Zeros, and no valid slot: what a replica without a batch takes part with.
BatchArrays land_none(const device::pjrt::Client& client, std::size_t device,
                      const hlo::Program& program);

/// A number without dimensions, and a key as programs take it.
device::pjrt::Buffer copy_number(const device::pjrt::Client& client, std::size_t device,
                                 float value);
device::pjrt::Buffer copy_number(const device::pjrt::Client& client, std::size_t device,
                                 std::int64_t value);
device::pjrt::Buffer copy_flag(const device::pjrt::Client& client, std::size_t device, bool value);
device::pjrt::Buffer copy_key(const device::pjrt::Client& client, std::size_t device,
                              const nn::BatchKey& key);
/// Float32 zeros.
device::pjrt::Buffer copy_zeros(const device::pjrt::Client& client, std::size_t device,
                                const std::vector<std::int64_t>& shape);
/// The values of a float32 array, to the host. Waits for them.
std::vector<float> values_of(const device::pjrt::Buffer& array, std::size_t count);

}  // namespace millrace::trainer
