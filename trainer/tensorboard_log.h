// TensorBoardLog: an event file that TensorBoard shows as curves.
//
// A file of records, each framed by its length and masked CRC-32C; a record is an Event protocol
// buffer: wall time, step, and a summary of scalar values.
//
//   TensorBoardLog log("runs/lenet");   // runs/lenet/events.out.tfevents.<time>.<host>.<pid>
//
// Source: TFRecord framing and tensorflow/core/util/event.proto, summary.proto.
// Threads: as Observer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "trainer/observer.h"

namespace millrace::trainer {

class TensorBoardLog final : public Observer {
 public:
  /// Creates a new file in `folder`. Throws: Io, here and in on_...().
  explicit TensorBoardLog(const std::string& folder);

  const std::string& path() const { return path_; }
  void on_step(const StepEvent& event) override { global_step_ = event.global_step; }
  void on_log_step(const StepEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;

 private:
  void write_scalars(const NamedValues& values);
  void write_record(std::string_view record);

  std::string path_;
  std::ofstream file_;
  std::int64_t global_step_ = 0;
};

/// CRC-32C (Castagnoli), as TFRecord masks it: rotated right by 15 and added to a constant.
std::uint32_t masked_crc32c(std::string_view data);

}  // namespace millrace::trainer
