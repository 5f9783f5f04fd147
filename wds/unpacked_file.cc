#include "wds/unpacked_file.h"

#include <optional>
#include <string>
#include <utility>

#include "wds/detail/tape.h"
#include "wds/detail/unpack.h"

namespace millrace::wds {
namespace {

/// What is not packed, read through the tape that looked at it.
class PlainFile final : public io::ByteSource {
 public:
  explicit PlainFile(std::unique_ptr<detail::Tape> tape) : tape_(std::move(tape)) {}

  std::size_t read(std::span<std::byte> into) override {
    const std::size_t got = tape_->peek(std::min(into.size(), detail::Tape::kUsualBytes)).size();
    const std::size_t size = std::min(got, into.size());
    tape_->read(into.first(size));
    return size;
  }
  std::uint64_t position() const override { return tape_->position(); }
  std::optional<std::uint64_t> size() const override { return tape_->source().size(); }
  const std::string& url() const override { return tape_->source().url(); }

 private:
  std::unique_ptr<detail::Tape> tape_;
};

}  // namespace

std::unique_ptr<io::ByteSource> open_unpacked_file(std::unique_ptr<io::ByteSource> packed,
                                                   const UnpackedFileOptions& options) {
  auto tape = std::make_unique<detail::Tape>(std::move(packed), 0);
  if (!detail::is_compressed(*tape)) return std::make_unique<PlainFile>(std::move(tape));
  return detail::unpack(std::move(tape), {.max_expansion = options.max_expansion,
                                          .max_window = options.max_window_bytes});
}

}  // namespace millrace::wds
