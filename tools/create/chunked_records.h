// ChunkedRecords: samples in chunks of items that an index.json lists, as MDS and LitData have
// them.
//
//   class MyRecords final : public ChunkedRecords {
//    public:
//     explicit MyRecords(const std::string& folder)
//         : ChunkedRecords(folder, {.item = "sample", .value = "column"}) {
//       open(folder + "/index.json", [&](const RecordJson& index) { add_column(...);
//       add_chunk(...); });
//     }
//     RecordValue value_of(const std::string& encoding, const io::Bytes& data) const override;
//   };
//
// Threads: as Records.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tools/create/record_values.h"
#include "tools/create/records.h"

namespace millrace::tools {

class ChunkedRecords : public Records {
 public:
  std::uint64_t size() const override;
  const std::vector<std::string>& columns() const override { return names_; }
  std::vector<std::string> files() const override;
  std::string place(std::uint64_t index) const override;
  std::vector<RecordValue> read(std::uint64_t index,
                                const std::vector<std::size_t>& columns) const override;

 protected:
  /// What the format calls an item and a value of one, for messages.
  struct Words {
    const char* item;
    const char* value;
  };

  ChunkedRecords(std::string folder, const Words& words);

  const std::string& folder() const { return folder_; }
  /// Reads the index by `take`, and then looks at the chunks that are not packed. Throws: what
  /// `take` does, with the index.
  void open(const std::string& index, const std::function<void(const RecordJson&)>& take);
  /// Takes columns' names, encodings and sizes; 0: not fixed. Throws: Unsupported where others were
  /// taken before.
  void set_columns(std::vector<std::string> names, std::vector<std::string> encodings,
                   std::vector<std::uint64_t> sizes);
  /// One without an item is left out. Its `first` is set.
  void add_chunk(ItemChunk chunk);
  bool is_empty() const { return chunks_.empty(); }

 private:
  virtual RecordValue value_of(const std::string& encoding, const io::Bytes& data) const = 0;

  std::string folder_;
  Words words_;
  std::string index_;
  FileRanges ranges_;
  std::vector<ItemChunk> chunks_;
  std::unique_ptr<std::once_flag[]> checked_;  ///< of each chunk: its checksum
  std::vector<std::string> names_;
  std::vector<std::string> encodings_;
  std::vector<std::uint64_t> sizes_;
};

}  // namespace millrace::tools
