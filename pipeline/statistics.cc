#include "pipeline/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/machine.h"

namespace millrace::pipeline {
namespace {

/// Below this share of waiting the consumer limits the rate.
constexpr double kNoticeableWait = 0.05;

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

const StageStatistics& busiest(const std::vector<StageStatistics>& stages) {
  return *std::max_element(stages.begin(), stages.end(), [](const auto& a, const auto& b) {
    return a.utilisation() < b.utilisation();
  });
}

/// The width of the names' column.
std::size_t widest(const std::vector<StageStatistics>& stages) {
  std::size_t width = 8;
  for (const StageStatistics& stage : stages) width = std::max(width, stage.name.size());
  return width;
}

std::string stage_line(const StageStatistics& stage, std::size_t width, double elapsed) {
  const double rate = elapsed > 0 ? 1.0 / elapsed : 0.0;
  return fmt::format(
      "{:<{}} {:>12} samples {:>10.0f}/s {:>9.1f} MB/s  {:>5.1f} % busy of {} thread{}\n",
      stage.name, width, stage.items, static_cast<double>(stage.items) * rate,
      static_cast<double>(stage.bytes) * rate / 1e6, 100 * stage.utilisation(), stage.threads,
      stage.threads == 1 ? "" : "s");
}

/// Of the stage that decodes pictures, from which share on it is worth while to keep them.
constexpr double kMuchDecoding = 0.3;
/// Of this machine's memory, what they may take to be advised.
constexpr std::uint64_t kShareOfMemory = 2;

std::string size_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return value < 1e9 ? fmt::format("{:.3g} MB", std::max(value, 1e6) / 1e6)
                     : fmt::format("{:.3g} GB", value / 1e9);
}

std::string cache_text(const DecodedPictures& pictures) {
  const std::uint64_t all = pictures.decoded + pictures.found;
  std::string text = fmt::format(
      "decoded pictures: {} kept in {} of {}; {:.1f} % of those needed were there", pictures.kept,
      size_text(pictures.kept_bytes), size_text(pictures.cache_bytes),
      all == 0 ? 0.0 : 100 * static_cast<double>(pictures.found) / static_cast<double>(all));
  if (pictures.set_bytes > pictures.cache_bytes)
    text += "; all would take about " + size_text(pictures.set_bytes);
  return text;
}

}  // namespace

double StageStatistics::utilisation() const {
  const double total = seconds(busy) + seconds(waiting);
  return total > 0 ? seconds(busy) / total : 0.0;
}

const StageStatistics& Statistics::stage(const std::string& name) const {
  const auto found = std::find_if(stages.begin(), stages.end(),
                                  [&](const StageStatistics& stage) { return stage.name == name; });
  if (found == stages.end()) throw Error(ErrorCode::kInvalidArgument, "no stage " + name);
  return *found;
}

Verdict Statistics::verdict() const {
  Verdict verdict;
  if (elapsed.count() == 0 || stages.empty()) {
    verdict.text = "nothing ran yet";
    return verdict;
  }
  verdict.wait_share = std::min(1.0, seconds(consumer_wait) / seconds(elapsed));
  if (verdict.wait_share < kNoticeableWait) {
    verdict.bound = Bound::kConsumer;
    verdict.text = fmt::format("consumer-bound: it waited {:.1f} % of the time for batches",
                               100 * verdict.wait_share);
    return verdict;
  }
  const StageStatistics& stage = busiest(stages);
  verdict.bound = Bound::kInput;
  verdict.stage = stage.name;
  verdict.text =
      fmt::format("input-bound by {} ({:.0f} % busy): the consumer waited {:.1f} % of the time",
                  stage.name, 100 * stage.utilisation(), 100 * verdict.wait_share);
  return verdict;
}

std::string Statistics::about_pictures() const {
  if (pictures.cache_bytes > 0) return cache_text(pictures);
  if (!pictures.is_repeated || pictures.set_bytes == 0) return {};
  if (pictures.set_bytes > usable_memory() / kShareOfMemory) return {};
  const Verdict found = verdict();
  if (found.bound != Bound::kInput || found.stage != "decode") return {};
  const double share = seconds(pictures.decoding) / seconds(stage("decode").busy);
  if (share < kMuchDecoding) return {};
  return fmt::format(
      "decoding pictures is {:.0f} % of that stage's work: a cache of {} (cache-decoded) would "
      "hold all of them decoded, so that each is decoded once",
      100 * std::min(share, 1.0), size_text(pictures.set_bytes));
}

Statistics Statistics::since(const Statistics& earlier) const {
  Statistics part = *this;
  for (StageStatistics& stage : part.stages) {
    const StageStatistics* before = nullptr;
    for (const StageStatistics& other : earlier.stages) {
      if (other.name == stage.name) before = &other;
    }
    if (!before) continue;
    stage.items -= before->items;
    stage.bytes -= before->bytes;
    stage.busy -= before->busy;
    stage.waiting = std::max(std::chrono::nanoseconds(0), stage.waiting - before->waiting);
  }
  part.elapsed -= earlier.elapsed;
  part.consumer_wait -= earlier.consumer_wait;
  part.batches -= earlier.batches;
  part.samples -= earlier.samples;
  part.masked -= earlier.masked;
  part.dropped -= earlier.dropped;
  part.skipped -= earlier.skipped;
  part.unknown_shards -= earlier.unknown_shards;
  part.refetched -= earlier.refetched;
  part.later_faults -= earlier.later_faults;
  part.untidy -= earlier.untidy;
  part.pictures.decoded -= earlier.pictures.decoded;
  part.pictures.decoded_bytes -= earlier.pictures.decoded_bytes;
  part.pictures.decoding -= earlier.pictures.decoding;
  part.pictures.found -= earlier.pictures.found;
  return part;
}

std::string Statistics::to_text() const {
  std::string text;
  const std::size_t width = widest(stages);
  for (const StageStatistics& stage : stages) text += stage_line(stage, width, seconds(elapsed));
  if (untidy > 0)
    text += fmt::format("{} samples have untidy images, which were decoded (verify names them)\n",
                        untidy);
  if (refetched > 0)
    text += fmt::format("{} fetched again: damaged on the network, intact the second time\n",
                        refetched);
  if (tuning.on) text += "autotune: " + tuning.text + "\n";
  text += verdict().text + "\n";
  const std::string about = about_pictures();
  return about.empty() ? text : text + about + "\n";
}

std::string Statistics::to_json() const {
  nlohmann::json by_stage = nlohmann::json::object();
  for (const StageStatistics& stage : stages) {
    by_stage[stage.name] = {{"samples", stage.items},        {"bytes", stage.bytes},
                            {"busy_s", seconds(stage.busy)}, {"waiting_s", seconds(stage.waiting)},
                            {"threads", stage.threads},      {"utilisation", stage.utilisation()}};
  }
  nlohmann::json value = {{"elapsed_s", seconds(elapsed)},
                          {"consumer_wait_s", seconds(consumer_wait)},
                          {"batches", batches},
                          {"samples", samples},
                          {"masked", masked},
                          {"dropped", dropped},
                          {"skipped", skipped},
                          {"unknown_shards", unknown_shards},
                          {"refetched", refetched},
                          {"later_faults", later_faults},
                          {"untidy", untidy},
                          {"samples_to_restore", samples_to_restore},
                          {"restored_samples", restored_samples},
                          {"restored_bytes", restored_bytes},
                          {"restore_s", std::chrono::duration<double>(restore_time).count()},
                          {"held_bytes", held_bytes},
                          {"peak_held_bytes", peak_held_bytes},
                          {"stages", std::move(by_stage)},
                          {"pictures",
                           {{"decoded", pictures.decoded},
                            {"decoded_bytes", pictures.decoded_bytes},
                            {"decoding_s", seconds(pictures.decoding)},
                            {"found", pictures.found},
                            {"kept", pictures.kept},
                            {"kept_bytes", pictures.kept_bytes},
                            {"cache_bytes", pictures.cache_bytes},
                            {"set_bytes", pictures.set_bytes},
                            {"text", about_pictures()}}},
                          {"verdict", verdict().text}};
  if (tuning.on)
    value["autotune"] = {{"readers", tuning.readers},
                         {"decode_threads", tuning.decode_threads},
                         {"read_ahead", tuning.read_ahead},
                         {"text", tuning.text}};
  return value.dump();
}

}  // namespace millrace::pipeline
