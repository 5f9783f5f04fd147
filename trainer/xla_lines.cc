#include "trainer/xla_lines.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "decode/npy.h"
#include "io/base/error.h"
#include "io/byte_sink.h"

namespace millrace::trainer {
namespace {

constexpr std::size_t kMaxLossBytes = std::size_t{1} << 30;

std::string rule() { return std::string(55, '-'); }

double loss_of(const NamedValues& values) {
  return find_value(values, "loss").value_or(std::numeric_limits<double>::quiet_NaN());
}

/// Source: NumPy's format 1.0: the header ends at a multiple of 64 bytes.
std::string npy_bytes(const std::vector<double>& values) {
  static_assert(std::endian::native == std::endian::little);
  constexpr std::size_t kMultiple = 64;
  constexpr std::size_t kBeforeText = 10;
  std::string text =
      fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': ({},), }}", values.size());
  const std::size_t used = kBeforeText + text.size() + 1;
  text += std::string((kMultiple - used % kMultiple) % kMultiple, ' ') + '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(text.size() & 0xFFU);
  bytes += static_cast<char>(text.size() >> 8U);
  bytes += text;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  return bytes;
}

}  // namespace

void XlaLines::on_fit_start() {
  for (int rank = 0; rank < options_.topology.world_size(); ++rank) {
    const auto device = static_cast<std::size_t>(rank % options_.topology.devices);
    options_.log.info(fmt::format("Process {} is using {}", rank, options_.devices.at(device)));
  }
}

void XlaLines::on_epoch_start(std::int64_t epoch) {
  if (begins_) {
    train_losses_ = earlier("trn_losses", epoch - 1);
    val_losses_ = earlier("val_losses", epoch - 1);
  }
  epoch_begins_ = true;
  say_banner(epoch);
}

void XlaLines::say_banner(std::int64_t epoch) const {
  options_.log.info(rule());
  options_.log.info(fmt::format("EPOCH {}/{}", epoch, options_.epochs));
  options_.log.info(rule());
}

void XlaLines::on_step_start(const StepStart& step) {
  if (begins_) step_losses_ = earlier("step_losses", step.global_step - 1);
  begins_ = false;
  if (!epoch_begins_) return;
  epoch_begins_ = false;
  options_.log.info(fmt::format("- initialization | devices = {}, lr = {:.6f}",
                                options_.topology.world_size(), step.lr));
  options_.log.info("- training...");
}

void XlaLines::on_step(const StepEvent& event) { step_losses_.push_back(event.loss); }

void XlaLines::on_log_step(const StepEvent& event) {
  options_.log.info(fmt::format("-- batch {} | cur_loss = {:.6f}, avg_loss = {:.6f}", event.step,
                                event.loss, event.mean_loss));
}

void XlaLines::on_evaluation_start(std::int64_t /*epoch*/) { options_.log.info("- validation..."); }

void XlaLines::on_epoch_end(const EpochEvent& event) {
  const bool evaluated = !event.val.empty();
  const auto valid = [&](const std::string& text) { return evaluated ? ", valid = " + text : ""; };
  options_.log.info(fmt::format("- elapsed time | train = {:.2f} min{}", event.train_seconds / 60,
                                valid(fmt::format("{:.2f} min", event.val_seconds / 60))));
  options_.log.info(fmt::format("- average loss | train = {:.6f}{}", loss_of(event.train),
                                valid(fmt::format("{:.6f}", loss_of(event.val)))));
  options_.log.info(rule());
  options_.log.info("");
  train_seconds_ += event.train_seconds;
  train_losses_.push_back(loss_of(event.train));
  if (evaluated) val_losses_.push_back(loss_of(event.val));
  write("trn_losses", train_losses_);
  if (evaluated) write("val_losses", val_losses_);
  write("step_losses", step_losses_);
  last_ = event;
}

void XlaLines::on_fit_end(const EndEvent& event) {
  say_ranks();
  if (event.best)
    options_.log.info(fmt::format("Best results: {} = {:.6f} (epoch {})", event.monitor,
                                  *event.best, event.best_epoch));
}

void XlaLines::say_ranks() const {
  for (int rank = 0; rank < options_.topology.world_size(); ++rank)
    options_.log.info(
        fmt::format("Process {} finished training. Train time was: {:.3f}", rank, train_seconds_));
  for (std::size_t rank = 0; rank < last_.val_by_rank.size(); ++rank) {
    options_.log.info(fmt::format("Process {} finished evaluation. Evaluation time was: {:.3f}",
                                  rank, last_.val_seconds));
    say_counts(rank, last_.val_by_rank[rank]);
  }
}

void XlaLines::say_counts(std::size_t rank, const RankEvaluation& evaluation) const {
  const auto top1 = find_value(evaluation.values, "top1");
  if (!top1 || evaluation.samples == 0 || !std::isfinite(*top1)) return;
  options_.log.info(fmt::format("Process {} guessed {} of {} correctly for {:.2f} % accuracy.",
                                rank, std::llround(*top1 * static_cast<double>(evaluation.samples)),
                                evaluation.samples, 100.0 * *top1));
}

std::vector<double> XlaLines::earlier(const std::string& name, std::int64_t count) const {
  if (options_.folder.empty() || count <= 0) return {};
  try {
    const std::string path = options_.folder + "/" + name + ".npy";
    const decode::NpyArray array =
        decode::parse_npy(io::read_object(*options_.opener, path, kMaxLossBytes));
    if (array.kind != 'f' || array.item_size != sizeof(double) || array.big_endian) return {};
    std::vector<double> values(array.data.size() / sizeof(double));
    std::memcpy(values.data(), array.data.data(), values.size() * sizeof(double));
    if (values.size() > static_cast<std::size_t>(count))
      values.resize(static_cast<std::size_t>(count));
    return values;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    return {};  // an earlier run without these lines
  }
}

void XlaLines::write(const std::string& name, const std::vector<double>& values) const {
  if (options_.folder.empty()) return;
  const std::string bytes = npy_bytes(values);
  const auto sink = options_.opener->open_sink(options_.folder + "/" + name + ".npy",
                                               {.replace = io::Replace::kAtomically});
  sink->write(std::as_bytes(std::span(bytes)));
  sink->finish();
}

}  // namespace millrace::trainer
