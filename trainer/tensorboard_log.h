// TensorBoardLog: an event file that TensorBoard shows as curves.
//
// A file of records, each framed by its length and masked CRC-32C; a record is an Event protocol
// buffer: wall time, step, and a summary of scalar values.
//
//   TensorBoardLog log(io::open_append_file("runs/lenet/" + TensorBoardLog::new_name()));
//
// Source: TFRecord framing and tensorflow/core/util/event.proto, summary.proto.
// Threads: as Observer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/append_file.h"
#include "trainer/observer.h"

namespace millrace::trainer {

class TensorBoardLog final : public Observer {
 public:
  /// A name for a new file: TensorBoard takes them in the order of their time.
  static std::string new_name();

  /// Writes to `file`, which is empty. Throws: Io, here and in on_...().
  explicit TensorBoardLog(std::unique_ptr<io::AppendFile> file);
  void on_step(const StepEvent& event) override { global_step_ = event.global_step; }
  void on_log_step(const StepEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;

 private:
  void write_scalars(const NamedValues& values);
  void write_record(std::string_view record);

  std::unique_ptr<io::AppendFile> file_;
  std::int64_t global_step_ = 0;
};

/// CRC-32C (Castagnoli), as TFRecord masks it: rotated right by 15 and added to a constant.
std::uint32_t masked_crc32c(std::string_view data);

}  // namespace millrace::trainer
