// Parquet files as shards: which columns are which fields, and how many rows there are.
//
// A shard whose name ends in .parquet, behind which a fragment may choose columns:
//
//   data/train-00000-of-00002.parquet
//   hf://datasets/OWNER/NAME/data/train.parquet#image=photo&label=kind
//
//   image=A,B    files of their own: "jpg" of the first, "b.png" of others
//   label=C      "cls": a whole number
//   text=D       "txt"
//   columns=E,F  the rest: files as "e.npy", everything else into the "json"
//   key=G        the key; without it, the file's name and the row: "train/00000017"
//
// Without `image`, `label`, `text` and `columns` all columns are taken: the picture, the label, and
// the rest as for `columns`. Only the columns of the fields that are wanted are read
// (ShardOptions::suffixes).
//
// A sample's offset is the number of its row, so that a stream's piece begins anywhere without an
// index; the file's footer has the counts.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "io/opener.h"

namespace millrace::wds {

/// Whether the shard at `url` is a Parquet file, by its name.
bool is_parquet(std::string_view url);

/// `url` of a Parquet file without the fragment that chooses columns; every other as it is.
std::string stored_url(const std::string& url);
/// That fragment, "#" included; empty if there is none.
std::string_view column_choice(std::string_view url);

class RowTable;

/// The table at `url`, whose fragment has no meaning here; later reads throw Corrupt if the object
/// has changed. Lifetime: `opener` outlives it. Throws: NotFound; Corrupt, Truncated, Unsupported
/// (Arrow is missing), and as opening and reading.
std::unique_ptr<RowTable> open_parquet(const io::Opener& opener, const std::string& url,
                                       const std::stop_token& stop = {});

/// Throws: Corrupt (more than 2^40).
std::uint64_t num_rows(const RowTable& table);
/// The rows of the Parquet file at `url`. Throws: as open_parquet().
std::uint64_t count_rows(const io::Opener& opener, const std::string& url,
                         const std::stop_token& stop = {});

}  // namespace millrace::wds
