#include "trainer/tensorboard_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "io/base/host.h"

namespace millrace::trainer {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}

template <typename T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

// Protocol buffers' wire format: varints, fixed numbers and length-delimited bytes after a tag.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7FU) | 0x80U);
  return bytes + static_cast<char>(value);
}

enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string tag(unsigned field, WireType type) { return varint(field << 3 | type); }
std::string bytes_field(unsigned field, std::string_view data) {
  return tag(field, kBytes) + varint(data.size()) + std::string(data);
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string event_head(std::int64_t step) {
  return tag(1, kFixed64) + little_endian(wall_time()) + tag(2, kVarint) +
         varint(static_cast<std::uint64_t>(step));
}

std::string length_frame(std::uint64_t length) {
  const std::string bytes = little_endian(length);
  return bytes + little_endian(masked_crc32c(bytes));
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) {
  static constexpr auto kTable = make_table();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : data) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xFFU];
  }
  return std::rotr(~crc, 15) + 0xA282EAD8U;
}

std::string TensorBoardLog::new_name() {
  return fmt::format("events.out.tfevents.{:.0f}.{}.{}", wall_time(), host_name(), ::getpid());
}

TensorBoardLog::TensorBoardLog(std::unique_ptr<io::AppendFile> file) : file_(std::move(file)) {
  write_record(tag(1, kFixed64) + little_endian(wall_time()) + bytes_field(3, "brain.Event:2"));
}

void TensorBoardLog::write_record(std::string_view record) {
  file_->append(length_frame(record.size()).append(record) + little_endian(masked_crc32c(record)));
}

void TensorBoardLog::write_scalars(const NamedValues& values) {
  std::string summary;
  for (const auto& [name, value] : values) {
    summary += bytes_field(
        1, bytes_field(1, name) + tag(2, kFixed32) + little_endian(static_cast<float>(value)));
  }
  write_record(event_head(global_step_) + bytes_field(5, summary));
}

void TensorBoardLog::on_log_step(const StepEvent& event) {
  write_scalars(
      {{"step/loss", event.loss}, {"step/lr", event.lr}, {"step/rate", event.recent_rate}});
}

void TensorBoardLog::on_epoch_end(const EpochEvent& event) {
  global_step_ = event.global_step;  // a resumed run may evaluate without a step
  NamedValues values{{"epoch/rate", event.rate}, {"epoch/wait_share", event.stall.wait_share}};
  for (const auto& [name, value] : event.train) values.emplace_back("train/" + name, value);
  for (const auto& [name, value] : event.val) values.emplace_back("val/" + name, value);
  write_scalars(values);
}

}  // namespace millrace::trainer
