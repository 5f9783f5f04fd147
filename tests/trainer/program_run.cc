#include "tests/trainer/program_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "io/base/rng.h"
#include "tests/support/process.h"
#include "tests/support/python_worker.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/torch_oracle.h"

namespace millrace::testing {
namespace {

using trainer::hlo::Program;
using trainer::hlo::ProgramValue;
using trainer::hlo::Role;
using trainer::hlo::Type;

std::size_t values_of(const ProgramValue& value) {
  return static_cast<std::size_t>(trainer::nn::num_values(value.shape));
}

std::size_t bytes_of(const ProgramValue& value) {
  const std::map<Type, std::size_t> sizes = {
      {Type::kFloat32, 4}, {Type::kBFloat16, 2}, {Type::kInt32, 4},  {Type::kInt64, 8},
      {Type::kUint8, 1},   {Type::kUint64, 8},   {Type::kUint32, 4}, {Type::kPred, 1}};
  return values_of(value) * sizes.at(value.type);
}

bool is_field(const ProgramValue& value) {
  return value.role == Role::kInput || value.role == Role::kTarget;
}

decode::DType dtype_of(Type type) {
  if (type == Type::kInt64) return decode::DType::kInt64;
  if (type == Type::kUint8) return decode::DType::kUInt8;
  return decode::DType::kFloat32;
}

ProgramData values_for(const ProgramValue& value, std::int64_t classes, std::uint64_t seed) {
  KeyedRng rng({.seed = seed, .purpose = Purpose::kUser});
  const std::size_t count = values_of(value);
  if (value.type == Type::kInt64) {
    std::vector<std::int64_t> labels(count);
    for (auto& label : labels)
      label = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(classes)));
    return program_data<std::int64_t>(labels);
  }
  if (value.type == Type::kUint8) {
    std::vector<std::uint8_t> bytes(count);
    for (auto& one : bytes) one = static_cast<std::uint8_t>(rng.below(256));
    return program_data<std::uint8_t>(bytes);
  }
  std::vector<float> numbers(count);
  for (auto& number : numbers) number = value.role == Role::kTarget ? rng.uniform() : rng.normal();
  if (value.name == "mask")
    for (auto& number : numbers) number = number > 0 ? 1.0F : 0.0F;
  if (value.name == "text")  // tokens' numbers
    for (auto& number : numbers) number = std::floor(3 * std::abs(number));
  return program_data<float>(numbers);
}

const std::string& jax_python() {
  static const std::string python = oracle_python("jaxlib");
  return python;
}

void append(std::string& to, const ProgramData& data) {
  to.append(reinterpret_cast<const char*>(data.data()), data.size());
}

}  // namespace

bool have_jax() { return !jax_python().empty(); }

pipeline::Batch program_batch(const Program& program, std::int64_t classes, int number,
                              std::int64_t num_valid) {
  auto data = std::make_shared<std::vector<ProgramData>>();
  pipeline::Batch batch;
  batch.index = number;
  batch.num_valid = num_valid;
  for (const ProgramValue& value : program.arguments) {
    if (!is_field(value)) continue;
    batch.size = value.shape[0];
    const auto seed = static_cast<std::uint64_t>(100 * number) + data->size();
    data->push_back(values_for(value, classes, seed));
    batch.fields.push_back({value.name, {dtype_of(value.type), value.shape}, {}});
  }
  for (std::size_t i = 0; i < data->size(); ++i) batch.fields[i].data = (*data)[i];
  for (std::int64_t slot = 0; slot < batch.size; ++slot) {
    batch.valid.push_back(slot < num_valid ? 1 : 0);
    batch.keys.push_back("sample " + std::to_string(slot));
  }
  batch.owner = data;
  return batch;
}

std::vector<ProgramData> program_arguments(const Program& program, const pipeline::Batch* batch,
                                           const ProgramNumbers& numbers) {
  std::vector<ProgramData> all;
  for (const ProgramValue& value : program.arguments) {
    if (value.donated_to) continue;
    ProgramData data(bytes_of(value));
    if (batch != nullptr && is_field(value)) {
      const auto bytes = batch->field(value.name).data;
      data.assign(bytes.begin(), bytes.end());
    } else if (batch != nullptr && value.role == Role::kValid) {
      data = program_data<std::uint8_t>(batch->valid);
    } else if (const auto known = numbers.find(value.name); known != numbers.end()) {
      data = known->second;
    }
    EXPECT_EQ(data.size(), bytes_of(value)) << value.name;
    all.push_back(std::move(data));
  }
  return all;
}

ProgramResults run_program(const Program& program,
                           const std::vector<std::vector<ProgramData>>& state,
                           const std::vector<std::vector<std::vector<ProgramData>>>& steps) {
  const TempDir folder;
  std::string given;
  for (const auto& replica : state)
    for (const ProgramData& data : replica) append(given, data);
  for (const auto& step : steps)
    for (const auto& replica : step)
      for (const ProgramData& data : replica) append(given, data);
  write_file(folder / "program.mlir", program.text);
  write_file(folder / "program.json", trainer::hlo::program_json(program));
  write_file(folder / "arguments.bin", given);
  // jaxlib's first buffer imports jax, which takes half a second.
  static PythonWorker worker(jax_python(), "numpy,ml_dtypes,jaxlib.xla_client,jax");
  const int status = worker.run(
      {"tests/trainer/run_program.py", folder.path().string(), std::to_string(steps.size())});
  EXPECT_EQ(0, status) << "what JAX says is above";
  if (status != 0) return {};
  const std::vector<float> found = read_floats(folder / "results.bin");
  auto next = found.begin();
  const auto take = [&](const ProgramValue& value) {
    const auto count = static_cast<std::ptrdiff_t>(values_of(value));
    std::vector<float> values(next, next + count);
    next += count;
    return values;
  };
  std::vector<bool> replaces(program.results.size(), false);
  for (const ProgramValue& value : program.arguments)
    if (value.donated_to) replaces[*value.donated_to] = true;
  ProgramResults results;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    auto& replicas = results.steps.emplace_back();
    for (std::size_t r = 0; r < state.size(); ++r) {
      auto& values = replicas.emplace_back();
      for (std::size_t i = 0; i < replaces.size(); ++i)
        if (!replaces[i]) values.push_back(take(program.results[i]));
    }
  }
  for (std::size_t r = 0; r < state.size(); ++r) {
    auto& values = results.state.emplace_back();
    for (const ProgramValue& value : program.arguments)
      if (value.donated_to) values.push_back(take(program.results[*value.donated_to]));
  }
  EXPECT_TRUE(next == found.end());
  return results;
}

}  // namespace millrace::testing
