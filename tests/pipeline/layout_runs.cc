#include "tests/pipeline/layout_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

namespace millrace::testing {
namespace {

using pipeline::Batch;
using pipeline::BatchField;
using pipeline::Pipeline;
using pipeline::PipelineOptions;
using pipeline::Position;

/// Each valid sample, with what its key drew.
void add_rows(const Batch& batch, std::vector<std::string>& rows) {
  const BatchField& field = batch.fields.front();
  const std::size_t bytes = field.data.size() / static_cast<std::size_t>(batch.size);
  for (std::size_t i = 0; i < batch.valid.size(); ++i) {
    if (batch.valid[i] == 0) continue;
    const auto row = field.data.subspan(i * bytes, bytes);
    rows.push_back(batch.keys[i] + " " +
                   std::string(reinterpret_cast<const char*>(row.data()), bytes));
  }
}

/// A replica's batch as text: its slots, which of them are valid, and all else as a number.
std::string replica_text(const Batch& batch, const std::vector<std::string>& rows) {
  std::string text = std::to_string(batch.slots.first) + "+" + std::to_string(batch.slots.stride);
  for (const std::uint8_t valid : batch.valid) text += valid == 0 ? "-" : "x";
  std::string all;
  for (const std::string& row : rows) all += row;
  const auto data = batch.fields.front().data;  // masked slots repeat what their replica had
  all.append(reinterpret_cast<const char*>(data.data()), data.size());
  return text + " " + std::to_string(std::hash<std::string>()(all));
}

std::vector<Pipeline> start(const PipelineOptions& whole, const Layout& layout,
                            const std::string& from) {
  std::vector<Pipeline> pipelines;
  for (int process = 0; process < layout.processes; ++process) {
    PipelineOptions options = whole;
    options.batch.size = whole.batch.size / layout.world();
    options.split.topology = {
        .process = process, .processes = layout.processes, .devices = layout.devices};
    if (!from.empty()) options.resume = std::make_shared<const Position>(Position::from_json(from));
    pipelines.emplace_back(std::move(options));
  }
  return pipelines;
}

/// Of the epoch that has ended in all of them.
EpochSums sums_of(const std::vector<Pipeline>& pipelines, std::size_t step) {
  EpochSums sums{.step = step};
  for (const Pipeline& pipeline : pipelines) {
    const auto ledger = pipeline.ledger();
    sums.emitted += ledger->emitted();
    sums.skipped += ledger->skipped();
    sums.filtered += ledger->filtered();
    sums.unknown_shards += ledger->unknown_shards();
  }
  return sums;
}

/// The step of all pipelines that have not ended; false if none had a batch.
bool step(std::vector<Pipeline>& pipelines, std::vector<bool>& has_ended, History& history) {
  std::vector<std::string> all;
  std::vector<std::string> replicas;
  std::vector<Position> positions;
  bool more = false;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    const int devices = pipelines[i].options().split.topology.devices;
    for (int device = 0; device < devices && !has_ended[i]; ++device) {
      Batch batch;
      has_ended[i] = !pipelines[i].next(batch);
      if (has_ended[i]) continue;
      EXPECT_EQ(batch.index % devices, device);
      std::vector<std::string> rows;
      add_rows(batch, rows);
      replicas.push_back(replica_text(batch, rows));
      all.insert(all.end(), rows.begin(), rows.end());
    }
    more = more || !has_ended[i];
    positions.push_back(pipelines[i].position());
  }
  // One that has ended before the others stands where its last batch was.
  for (Position& position : positions)
    if (more && position.epoch > positions.front().epoch)
      position = {.epoch = positions.front().epoch,
                  .process = position.process,
                  .processes = static_cast<int>(pipelines.size())};
  std::ranges::sort(all);
  history.steps.push_back(std::move(all));
  history.replicas.push_back(std::move(replicas));
  history.positions.push_back(Position::joined(positions).to_json());
  return more;
}

}  // namespace

History run(const PipelineOptions& whole, const Layout& layout, const std::string& from,
            std::size_t most) {
  std::vector<Pipeline> pipelines = start(whole, layout, from);
  History history;
  while (!pipelines.front().finished()) {
    std::vector<bool> has_ended(pipelines.size());
    for (bool more = true; more;) {
      more = step(pipelines, has_ended, history);
      if (!more) history.epochs.push_back(sums_of(pipelines, history.steps.size()));
      if (most > 0 && history.steps.size() == most) return history;
    }
  }
  return history;
}

}  // namespace millrace::testing
