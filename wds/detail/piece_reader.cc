#include "wds/detail/piece_reader.h"

#include <algorithm>
#include <utility>

#include "io/base/error.h"
#include "io/file_system.h"
#include "io/local_path.h"
#include "wds/parquet_shard.h"
#include "wds/sample_counts.h"
#include "wds/shard_index.h"

namespace millrace::wds::detail {

PieceReader::PieceReader(const Shared& shared, std::uint32_t shard, ShardPiece piece,
                         std::uint64_t start_offset)
    : shared_(&shared),
      shard_(shard),
      piece_(std::move(piece)),
      start_offset_(start_offset),
      by_row_(is_parquet(piece_.url)) {}

// Without an index a piece is found by counting samples from the shard's beginning, or from where
// its scan has found one. Samples beyond the known count belong to the last piece.
bool PieceReader::next(Sample& sample) {
  if (!reader_) open();
  while (reads_all() || piece_.to_end || number_ < end()) {
    if (!reader_->next(sample)) return false;
    count_refetched();
    ++number_;
    if (reads_all() || (number_ > piece_.first && sample.offset >= start_offset_)) {
      join(sample);
      gave_ = true;
      return true;
    }
  }
  return false;
}

void PieceReader::join(Sample& sample) {
  if (!joiner_) return;
  join_failed_ = true;
  joiner_->complete(sample);
  join_failed_ = false;
}

bool PieceReader::is_done() const {
  if (!reader_) return false;
  return reader_->at_end() || !(reads_all() || piece_.to_end || number_ < end());
}

void PieceReader::close() {
  if (reader_) shared_->ledger.warn_of(reader_->warnings(), piece_.url);
  reader_.reset();
}

void PieceReader::count_refetched() {
  const std::uint64_t all = reader_->refetched();
  shared_->ledger.count_refetched(piece_.url, all - std::exchange(refetched_, all));
}

/// Whether its parts can be read again for what reading a disk's cache costs.
bool PieceReader::is_on_disk(const std::string& url) {
  const auto path = io::local_path(url);
  return path && !io::is_read_once(url) && !io::is_in_network_file_system(*path);
}

bool PieceReader::seeks_index(const Shared& shared, const ShardPiece& piece) {
  const bool sought = piece.cut() && !piece.scan;
  return shared.spec.indexed || sought || shared.ledger.policy().require_index;
}

std::shared_ptr<const ShardIndex> PieceReader::index_of(const Shared& shared,
                                                        const ShardPiece& piece) {
  const StreamSpec& spec = shared.spec;
  if (!seeks_index(shared, piece)) return nullptr;
  auto index = usable_index(shared.opener, piece.url, shared.ledger, spec.shard.stop,
                            spec.shard.listed ? IndexParts::kSamples : IndexParts::kAll);
  if (index) spec.found.first_indexes->check(piece.url, index->sha256);
  return index;
}

void PieceReader::open() {
  const StreamSpec& spec = shared_->spec;
  ShardOptions options = spec.shard;
  options.offset = start_offset_;
  open_ahead();
  index_ = index_of(*shared_, piece_);
  options.index = index_;
  if (piece_.cut()) place(options);
  if (spec.found.joins)
    joiner_.emplace(*spec.found.joins, piece_.url, shared_->opener, spec.shard, &shared_->ledger);
  const io::Opener& opener = ahead_ ? *ahead_ : shared_->opener;
  reader_.emplace(opener, piece_.url, options);
  on_disk_ = !by_row_ && is_on_disk(piece_.url);
}

// From afar, a shard that is read from its beginning is asked for together with its index.
void PieceReader::open_ahead() {
  const ShardOptions& shard = shared_->spec.shard;
  if (start_offset_ > 0 || piece_.first > 0 || by_row_ || shard.listed ||
      !io::is_network_url(piece_.url) || !seeks_index(*shared_, piece_))
    return;
  ahead_ = std::make_unique<OpenedAhead>(
      shared_->opener, piece_.url,
      io::OpenOptions{.expected = shard.expected_bytes, .stop = shard.stop});
}

// Finds the piece's position in its shard, by its index or scan if there is one.
void PieceReader::place(ShardOptions& options) {
  if (by_row_) return place_by_row(options);
  if (!index_) return place_by_scan(options);
  const std::vector<IndexedSample>& samples = index_->samples;
  const std::uint64_t last = piece_.count == 0 ? samples.size() : end();
  if (piece_.first >= samples.size() || last > samples.size()) {
    throw Error(ErrorCode::kCorrupt, "index holds fewer samples than were counted",
                {.url = piece_.url});
  }
  options.offset = std::max(start_offset_, samples[piece_.first].offset);
  options.max_samples = last - index_->sample_at(options.offset);
}

void PieceReader::place_by_row(ShardOptions& options) {
  options.offset = number_ = std::max(start_offset_, piece_.first);
  if (piece_.count > 0) options.max_samples = end() - std::min(end(), options.offset);
}

// Damage may lie before the piece, and then it matters that it is read.
void PieceReader::place_by_scan(ShardOptions& options) {
  options.offset = 0;
  const ShardScan* scan = piece_.scan.get();
  if (scan == nullptr || scan->damage || piece_.first >= scan->blocks.size()) return;
  options.offset = std::max(start_offset_, scan->offset_of(piece_.first));
  number_ = scan->sample_at(options.offset);
}

PieceReader::After PieceReader::survive(const Error& fault) {
  lost_ = {};
  if (std::exchange(join_failed_, false)) {
    lost_.samples = 1;
    return shared_->ledger.report(fault, 1) == OnFault::kStop ? After::kEnd : After::kGoOn;
  }
  const bool goes_on = reader_ && reader_->can_continue();
  const bool own = is_own(fault);
  if (goes_on && !is_placed()) ++number_;
  if (goes_on && !own) return After::kGoOn;
  if (report(fault, goes_on) == OnFault::kStop) return After::kEnd;
  return goes_on ? After::kGoOn : After::kNextShard;
}

OnFault PieceReader::report(const Error& fault, bool goes_on) {
  if (goes_on) {
    lost_.samples = reader_->lost_samples();
    return shared_->ledger.report(fault, lost_.samples);
  }
  const auto samples = lost_samples(fault);
  lost_ = {.samples = samples.value_or(0), .shards = samples ? 0U : 1U, .more = !samples};
  return shared_->ledger.report_shard(fault, samples);
}

// A faulty sample of another piece is reported by that piece; one before the position was already
// reported.
bool PieceReader::is_own(const Error& fault) const {
  if (reads_all()) return true;
  return number_ >= piece_.first && fault.where().offset.value_or(start_offset_) >= start_offset_;
}

// How many samples the unreadable rest of the piece has.
std::optional<std::uint64_t> PieceReader::lost_samples(const Error& fault) const {
  if (shared_->ledger.policy().on_fault == OnFault::kFail || fault.code() == ErrorCode::kCancelled)
    return {};
  if (reader_ && is_placed()) return reader_->lost_samples();
  const bool unread_rest = !index_ && piece_.scan && piece_.scan->damage;
  const auto all = unread_rest ? listed_samples() : all_samples(fault);
  if (index_ || !all) return all;
  const auto before = samples_before();
  if (!before) return {};
  const std::uint64_t done = *before + number_ - std::min(number_, piece_.first);
  return *all - std::min(*all, done);
}

// What an earlier reader of a whole shard has read was not counted; an index beside it, which it is
// not read by, may say.
std::optional<std::uint64_t> PieceReader::samples_before() const {
  if (start_offset_ == 0 || piece_.cut()) return 0;
  if (is_scanned_whole()) return piece_.scan->sample_at(start_offset_);
  try {
    const auto index = find_index(shared_->opener, piece_.url, shared_->spec.shard.stop, nullptr,
                                  IndexParts::kSamples);
    if (index) return index->sample_at(start_offset_);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
  }
  return {};
}

bool PieceReader::is_scanned_whole() const { return piece_.scan && !piece_.scan->damage; }

// A scan does not know what lies behind damage; a manifest may.
std::optional<std::uint64_t> PieceReader::listed_samples() const {
  const auto& listed = shared_->ledger.policy().samples_of;
  const auto samples = listed ? listed(piece_.url) : std::nullopt;
  if (!samples) return {};
  return *samples - std::min(*samples, piece_.first);
}

std::optional<std::uint64_t> PieceReader::all_samples(const Error& fault) const {
  if (index_ && start_offset_ > 0) {
    const std::uint64_t last = piece_.count == 0 ? index_->samples.size() : end();
    return last - std::min<std::uint64_t>(last, index_->sample_at(start_offset_));
  }
  if (piece_.count > 0) return piece_.count;
  if (index_) return index_->samples.size();
  if (is_scanned_whole()) return piece_.scan->count;
  return samples_in_shard(shared_->ledger.policy(), fault, shared_->opener, piece_.url,
                          shared_->spec.shard.stop);
}

}  // namespace millrace::wds::detail
