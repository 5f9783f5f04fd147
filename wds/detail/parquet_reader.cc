#include "wds/detail/parquet_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/base/check.h"
#include "wds/member_name.h"
#include "wds/parquet_shard.h"
#include "wds/row_table.h"

namespace millrace::wds::detail {
namespace {

/// "train-00000" of "hf://datasets/a/b/train-00000.parquet#image=x". A dot would end the key.
std::string stem_of(const std::string& url) {
  std::string name = io::printable_url(stored_url(url));
  name = name.substr(name.rfind('/') + 1);
  name.resize(name.size() - std::string_view(".parquet").size());
  std::ranges::replace(name, '.', '_');
  return name;
}

bool is_damage_of_data(const Error& fault) {
  return fault.code() == ErrorCode::kCorrupt || fault.code() == ErrorCode::kTruncated ||
         fault.code() == ErrorCode::kUnsupported || fault.code() == ErrorCode::kExhausted;
}

}  // namespace

ParquetReader::ParquetReader(const io::Opener& opener, std::shared_ptr<const std::string> url,
                             const ShardOptions& options)
    : url_(std::move(url)),
      stem_(stem_of(*url_)),
      max_bytes_(options.tar.max_member_bytes),
      row_(options.offset) {
  MILLRACE_CHECK(!options.rename && !options.select, "a Parquet file has no members to rename");
  table_ = open_parquet(opener, *url_, options.stop);
  const std::uint64_t rows = num_rows(*table_);
  columns_.emplace(table_->columns(), column_choice(*url_), options.suffixes);
  if (row_ > rows || options.max_samples > rows - row_)
    throw Error(ErrorCode::kCorrupt, "the file has fewer rows than were counted", {.offset = row_});
  end_ = options.max_samples == 0 ? rows : row_ + options.max_samples;
}

bool ParquetReader::next(Sample& sample) {
  MILLRACE_CHECK(!broken_, "a broken shard cannot be read further");
  if (row_ == end_) return false;
  find_group();
  load();
  const std::uint64_t row = row_++;
  lost_ = 1;
  try {
    sample = sample_of(row);
    return true;
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("row {} of row group {}: {}", row, group_, error.message()),
                {.key = fmt::format("{}/{:08}", stem_, row), .offset = row});
  }
}

void ParquetReader::find_group() {
  for (; row_ >= group_end(); ++group_) {
    group_begin_ = group_end();
    batches_.reset();
    batch_.reset();
  }
}

// What the network damaged is read once more.
void ParquetReader::load() {
  const std::uint64_t first = row_;
  try {
    load_batch();
  } catch (const Error& error) {
    if (load_again(error)) return;
    lose_group(error);
    throw Error(error.code(), fmt::format("row group {}: {}", group_, error.message()),
                {.offset = first});
  }
}

void ParquetReader::load_batch() {
  if (columns_->wanted().empty()) return;
  if (!batches_) {
    batches_ = table_->read(group_, columns_->wanted());
    batch_.reset();
    batch_begin_ = group_begin_;
  }
  while (!batch_ || row_ >= batch_begin_ + batch_->rows()) {
    auto next = batches_->next();
    if (!next) throw Error(ErrorCode::kTruncated, "fewer rows than the footer says");
    batch_begin_ += batch_ ? batch_->rows() : 0;
    batch_ = std::move(next);
  }
}

// If that fails too, the first fault counts.
bool ParquetReader::load_again(const Error& fault) {
  if (fault.code() != ErrorCode::kCorrupt || !io::is_network_url(*url_)) return false;
  batches_.reset();
  try {
    load_batch();
    ++refetched_;
    return true;
  } catch (const Error& second) {
    if (second.code() == ErrorCode::kCancelled) throw;
    return false;
  }
}

// A network or disk fault would hit the next group too.
void ParquetReader::lose_group(const Error& fault) {
  batches_.reset();
  batch_.reset();
  broken_ = !is_damage_of_data(fault);
  lost_ = (broken_ ? end_ : std::min(end_, group_end())) - row_;
  row_ += lost_;
}

Sample ParquetReader::sample_of(std::uint64_t row) const {
  Sample sample{.key = fmt::format("{}/{:08}", stem_, row), .url = url_, .offset = row};
  if (!batch_) return sample;
  const auto place = static_cast<std::size_t>(row - batch_begin_);
  if (auto key = columns_->key_of(*batch_, place)) {
    check_member_name(*key);
    sample.key = *std::move(key);
    std::ranges::replace(sample.key, '.', '_');
  }
  sample.fields = columns_->fields_of(*batch_, place, max_bytes_);
  for (Field& field : sample.fields) field.offset = row;
  return sample;
}

}  // namespace millrace::wds::detail
