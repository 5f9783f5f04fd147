#include "tools/create/local_file.h"

#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/local_file.h"
#include "io/same_file.h"

namespace millrace::tools {

std::string local_url(const std::string& path) {
  return "file://" + std::filesystem::absolute(path).string();
}

// One allocation of the right size: growing costs more than reading. A byte more is asked for than
// the file has: a read of less has met its end, so that most files take one.
io::Bytes read_local_file(const std::string& path, std::size_t max_bytes) {
  const auto source = io::open_local_file(path);
  const std::uint64_t size = source->size().value_or(0);
  if (size == 0 || size > max_bytes) return io::read_all(*source, max_bytes);
  auto owner = std::make_shared_for_overwrite<std::byte[]>(size + 1);
  const std::span<std::byte> room(owner.get(), size + 1);
  std::size_t used = 0;
  for (std::size_t got = 1; used < size && got > 0; used += got)
    got = source->read(room.subspan(used));
  if (used != size)
    throw Error(ErrorCode::kIo, "the file changed while it was read", {.url = path});
  return {room.first(size), std::move(owner)};
}

void refuse_repeated_files(std::span<const std::string> files) {
  std::vector<std::string> identities;
  identities.reserve(files.size());
  for (const std::string& file : files) identities.push_back(io::file_identity(file));
  const auto repeated = io::find_repeated(identities);
  if (!repeated) return;
  const std::string& file = files[repeated->first];
  const std::string& earlier = files[repeated->second];
  throw Error(ErrorCode::kInvalidArgument,
              file + (earlier == file ? " is listed twice" : " and " + earlier + " are one file") +
                  ": its samples would be in the set twice");
}

}  // namespace millrace::tools
