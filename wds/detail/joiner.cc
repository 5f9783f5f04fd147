#include "wds/detail/joiner.h"

#include <fmt/format.h>

#include <utility>

#include "io/base/error.h"

namespace millrace::wds::detail {

Joiner::Joiner(const Joins& joins, const std::string& url, const io::Opener& opener,
               const ShardOptions& options, FaultLedger* ledger)
    : listed_(options.listed), ledger_(ledger) {
  ShardOptions one = options;
  one.listed = false;
  one.max_samples = 0;
  one.expected_bytes = 0;
  for (const std::string& other : joins.of(url)) {
    auto contents = joins.contents(opener, other, one, ledger);
    one.index = contents->index();
    partners_.push_back({.url = std::make_shared<const std::string>(other),
                         .contents = std::move(contents),
                         .reader = ForwardReader(other, opener, one)});
  }
}

void Joiner::complete(Sample& sample) {
  for (Partner& partner : partners_) {
    try {
      const IndexedSample* place = partner.contents->find(sample.key);
      if (place == nullptr) {
        miss(partner, sample);
        continue;
      }
      partner.is_used = true;
      if (listed_)
        sample.passed_bytes += place->num_bytes;
      else
        add(partner, partner.reader.at(place->offset), sample);
    } catch (Error& error) {
      error.annotate({.url = *partner.url, .key = sample.key});
      throw;
    }
  }
}

void Joiner::miss(Partner& partner, const Sample& sample) const {
  if (partner.is_used || ledger_ == nullptr || ++partner.without != kMostWithout) return;
  ledger_->warn(
      {.url = *partner.url, .key = sample.key},
      "a joined shard completes no sample so far: are its keys the same?",
      fmt::format("none of the first {} samples of the shard that it is joined to", kMostWithout));
}

std::uint64_t Joiner::bytes() const {
  std::uint64_t bytes = 0;
  for (const Partner& partner : partners_) bytes += partner.reader.bytes();
  return bytes;
}

void Joiner::add(const Partner& partner, Sample found, Sample& sample) {
  sample.passed_bytes += found.passed_bytes;
  for (Field& field : found.fields) {
    if (sample.find(field.suffix) != nullptr)
      throw Error(ErrorCode::kCorrupt, "a joined shard has a field that the sample has already",
                  {.member = sample.key + "." + field.suffix, .offset = field.offset});
    field.url = partner.url;
    sample.fields.push_back(std::move(field));
  }
}

}  // namespace millrace::wds::detail
