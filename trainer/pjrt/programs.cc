#include "trainer/pjrt/programs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <chrono>
#include <future>
#include <utility>

#include "device/pjrt/pjrt_device.h"
#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/input_shapes.h"

namespace millrace::trainer {
namespace {

using device::pjrt::Buffer;
using device::pjrt::Client;
using hlo::ProgramValue;
using hlo::Role;

decode::DType dtype_of(hlo::Type type) {
  switch (type) {
    case hlo::Type::kUint8:
      return decode::DType::kUInt8;
    case hlo::Type::kInt64:
      return decode::DType::kInt64;
    case hlo::Type::kBFloat16:
      return decode::DType::kBFloat16;
    default:
      return decode::DType::kFloat32;
  }
}

decode::ArraySpec spec_of(const ProgramValue& value) {
  return {.dtype = dtype_of(value.type), .shape = value.shape};
}

bool is_portable(ProgramKind kind) {
  return kind == ProgramKind::kGradients || kind == ProgramKind::kEvaluation ||
         kind == ProgramKind::kPrediction;
}

std::string text_of(const decode::ArraySpec& spec) {
  return fmt::format("{} ({})", decode::dtype_name(spec.dtype), fmt::join(spec.shape, ", "));
}

void check_field(const pipeline::BatchField& field, const ProgramValue& wanted) {
  const decode::ArraySpec spec = spec_of(wanted);
  if (field.spec.dtype == spec.dtype && field.data.size() == spec.num_bytes() &&
      is_read_as(field.spec.shape, spec.shape))
    return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field {} is {}, and the model and its losses need {}", field.name,
                          text_of(field.spec), text_of(spec)));
}

Buffer copy_bytes(const Client& client, std::size_t device, const decode::ArraySpec& spec,
                  std::span<const std::byte> data) {
  return client.copy_in(device, {.spec = spec, .data = data});
}

Buffer zeros(const Client& client, std::size_t device, const decode::ArraySpec& spec) {
  return copy_bytes(client, device, spec, std::vector<std::byte>(spec.num_bytes()));
}

template <typename T>
Buffer scalar(const Client& client, std::size_t device, T value, decode::DType dtype) {
  return copy_bytes(client, device, {.dtype = dtype, .shape = {}},
                    std::as_bytes(std::span(&value, 1)));
}

SharedArray own(Buffer array) { return std::make_shared<const Buffer>(std::move(array)); }

/// What the device has landed of the batch; null: nothing.
SharedArray landed_field(const pipeline::Batch& batch, const std::string& name) {
  const auto landed = std::dynamic_pointer_cast<const device::pjrt::LandedFields>(batch.landed);
  return landed == nullptr ? nullptr : SharedArray(landed, landed->find(name));
}

/// Puts one array of each input, target and flag of `program` into `to`.
template <typename Make>
void fill(BatchArrays& to, const hlo::Program& program, const Make& make) {
  for (const ProgramValue& value : program.arguments) {
    if (value.role == Role::kInput) to.inputs.push_back(make(value));
    if (value.role == Role::kTarget) to.targets.push_back(make(value));
    if (value.role == Role::kValid) to.valid.push_back(make(value));
    if (value.role != Role::kInput) continue;
    to.shape = {.slots = value.shape[0], .input = dtype_of(value.type)};
  }
}

}  // namespace

void Programs::set_training(const hlo::StepProgramOptions& options, int replicas,
                            ProgramKind first) {
  training_ = options;
  replicas_ = spans_processes() ? static_cast<int>(setup_.assignment.size()) : replicas;
  // What cannot be, is refused before anything starts.
  static_cast<void>(make({.kind = ProgramKind::kStep}));
  if (first != ProgramKind::kStep) static_cast<void>(make({.kind = first}));
}

decode::DType Programs::usual_input() const {
  if (!setup_.bytes.mean.empty()) return decode::DType::kUInt8;
  return setup_.precision == nn::Precision::kBFloat16 ? decode::DType::kBFloat16
                                                      : decode::DType::kFloat32;
}

hlo::Program Programs::make(const ProgramKey& key) const {
  const bool is_alone = is_portable(key.kind) || key.kind == ProgramKind::kSummedUpdate;
  const hlo::ProgramSetup setup{.model = setup_.model,
                                .objective = setup_.objective,
                                .batch_size = key.shape.slots,
                                .precision = setup_.precision,
                                .input_dtype = key.shape.input,
                                .bytes = setup_.bytes,
                                .replicas = is_alone ? 1 : replicas_};
  switch (key.kind) {
    case ProgramKind::kStep:
      return hlo::make_step_program(setup, training_);
    case ProgramKind::kGradients:
      return hlo::make_gradient_program(setup);
    case ProgramKind::kUpdate:
    case ProgramKind::kSummedUpdate:
      return hlo::make_update_program(setup, training_);
    case ProgramKind::kEvaluation:
      return hlo::make_evaluation_program(setup);
    case ProgramKind::kPrediction:
      break;
  }
  return hlo::make_prediction_program(setup);
}

// It takes minutes on some devices, and cannot be ended.
CompiledProgram Programs::find_or_compile(const ProgramKey& key, hlo::Program manifest,
                                          const std::string& shape) const {
  const bool portable = is_portable(key.kind);
  device::pjrt::CompileOptions options{
      .replicas = portable ? 1 : replicas_, .portable = portable, .flags = setup_.flags};
  if (!portable) options.assignment = setup_.assignment;
  if (auto kept = store_.find(manifest.text, options))
    return {std::move(manifest), *std::move(kept)};
  auto compiling =
      std::async(std::launch::async, [&] { return client().compile(manifest.text, options); });
  if (compiling.wait_for(std::chrono::seconds(2)) != std::future_status::ready)
    setup_.log.info(fmt::format("compiling {} for {}", shape, client().platform()));
  device::pjrt::Program program = compiling.get();
  store_.keep(program, manifest.text, options);
  return {std::move(manifest), std::move(program)};
}

CompiledProgram Programs::compile(const ProgramKey& key,
                                  std::vector<CompileEvent>& compiled) const {
  const auto start = std::chrono::steady_clock::now();
  hlo::Program manifest = make(key);
  const bool is_update = key.kind == ProgramKind::kUpdate || key.kind == ProgramKind::kSummedUpdate;
  std::string shape = fmt::format("{} ({})", setup_.model.name(), manifest.name);
  if (!is_update)
    shape = fmt::format("{} x {} {} ({})", key.shape.slots, setup_.model.name(),
                        decode::dtype_name(key.shape.input), manifest.name);
  CompiledProgram program = find_or_compile(key, std::move(manifest), shape);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  compiled.push_back({.shape = shape, .seconds = seconds.count()});
  return program;
}

const CompiledProgram& Programs::get(const ProgramKey& key, std::vector<CompileEvent>& compiled) {
  const std::scoped_lock lock(mutex_);
  Known& known = programs_[key];
  if (known.fault) std::rethrow_exception(known.fault);
  if (known.program != nullptr) return *known.program;
  try {
    known.program = std::make_unique<CompiledProgram>(compile(key, compiled));
  } catch (...) {
    known.fault = std::current_exception();
    throw;
  }
  return *known.program;
}

template <typename Arrays, typename Address>
void Arguments::give_each(Role role, const Arrays& arrays, const std::string& state,
                          const Address& address) {
  auto next = arrays.begin();
  for (std::size_t i = 0; i < arguments_.size() && next != arrays.end(); ++i) {
    const ProgramValue& value = program_.arguments[i];
    if (value.role == role && value.state == state) arguments_[i] = address(*next++);
  }
  MILLRACE_CHECK(next == arrays.end(), "as many arrays as arguments");
}

void Arguments::give(Role role, const DeviceArrays& arrays, const std::string& state) {
  give_each(role, arrays, state, [](const Buffer& array) { return &array; });
}

void Arguments::give(Role role, const std::vector<SharedArray>& arrays) {
  give_each(role, arrays, {}, [](const SharedArray& array) { return array.get(); });
}

void Arguments::give(Role role, const Buffer& array) {
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    if (program_.arguments[i].role == role) arguments_[i] = &array;
}

std::vector<const Buffer*> Arguments::take() const {
  for (const Buffer* const one : arguments_)
    MILLRACE_CHECK(one != nullptr, "an argument of a program was not given");
  return arguments_;
}

DeviceArrays take_results(const hlo::Program& program, DeviceArrays& results, Role role,
                          const std::string& state) {
  DeviceArrays taken;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ProgramValue& value = program.results[i];
    if (value.role == role && value.state == state) taken.push_back(std::move(results[i]));
  }
  return taken;
}

void BatchArrays::give_to(Arguments& arguments) const {
  arguments.give(Role::kInput, inputs);
  arguments.give(Role::kTarget, targets);
  arguments.give(Role::kValid, valid);
}

BatchShape shape_of(const pipeline::Batch& batch, const Objective& objective) {
  return {.slots = batch.size, .input = batch.field(objective.inputs().front()).spec.dtype};
}

BatchArrays land(const Client& client, std::size_t device, const hlo::Program& program,
                 const pipeline::Batch& batch) {
  BatchArrays arrays;
  fill(arrays, program, [&](const ProgramValue& value) {
    if (value.role == Role::kValid)
      return own(copy_bytes(client, device, spec_of(value), std::as_bytes(std::span(batch.valid))));
    const pipeline::BatchField& field = batch.field(value.name);
    check_field(field, value);
    SharedArray landed =
        field.spec.shape == value.shape ? landed_field(batch, value.name) : nullptr;
    if (landed != nullptr) return landed;
    return own(copy_bytes(client, device, spec_of(value), field.data));
  });
  return arrays;
}

BatchArrays land_none(const Client& client, std::size_t device, const hlo::Program& program) {
  BatchArrays arrays;
  fill(arrays, program,
       [&](const ProgramValue& value) { return own(zeros(client, device, spec_of(value))); });
  return arrays;
}

Buffer copy_number(const Client& client, std::size_t device, float value) {
  return scalar(client, device, value, decode::DType::kFloat32);
}

Buffer copy_number(const Client& client, std::size_t device, std::int64_t value) {
  return scalar(client, device, value, decode::DType::kInt64);
}

Buffer copy_flag(const Client& client, std::size_t device, bool value) {
  return scalar(client, device, static_cast<std::uint8_t>(value ? 1 : 0), decode::DType::kUInt8);
}

Buffer copy_key(const Client& client, std::size_t device, const nn::BatchKey& key) {
  const std::array<std::uint64_t, 4> values = {key.first.seed, key.first.epoch, key.first.index,
                                               key.stride};
  return copy_bytes(client, device, {.dtype = decode::DType::kInt64, .shape = {4}},
                    std::as_bytes(std::span(values)));
}

Buffer copy_zeros(const Client& client, std::size_t device,
                  const std::vector<std::int64_t>& shape) {
  return zeros(client, device, {.dtype = decode::DType::kFloat32, .shape = shape});
}

std::vector<float> values_of(const Buffer& array, std::size_t count) {
  std::vector<float> values(count);
  array.read(std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace millrace::trainer
