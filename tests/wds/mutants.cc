#include "tests/wds/mutants.h"

#include <algorithm>

#include "io/base/rng.h"
#include "tests/support/tar_builder.h"

namespace millrace::testing {
namespace {

constexpr std::size_t kBlock = 512;

std::string payload(int sample) {
  std::string data(700 + static_cast<std::size_t>(sample) * 31, '\0');
  KeyedRng rng({.index = static_cast<std::uint64_t>(sample)});
  for (char& byte : data) byte = static_cast<char>(rng());
  return data;
}

// The offsets of each member's header and payload.
struct Place {
  std::size_t header = 0;
  std::size_t size = 0;
};

std::vector<Place> places(int samples) {
  std::vector<Place> found;
  std::size_t at = 0;
  for (int i = 0; i < samples; ++i) {
    for (const std::size_t size : {std::size_t{1}, payload(i).size()}) {
      found.push_back({at, size});
      at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
    }
  }
  return found;
}

Damage damage_of_cut(std::size_t cut, const std::vector<Place>& members) {
  const Place& last = members.back();
  if (cut >= last.header + kBlock + (last.size + kBlock - 1) / kBlock * kBlock) {
    return Damage::kCutEnd;
  }
  for (const Place& member : members) {
    if (cut >= member.header && cut < member.header + kBlock) return Damage::kCutHeader;
  }
  return Damage::kCutPayload;
}

std::string flipped(std::string tar, std::size_t at, int bit) {
  tar[at] = static_cast<char>(static_cast<unsigned char>(tar[at]) ^ (1U << bit));
  return tar;
}

}  // namespace

const char* damage_name(Damage damage) {
  constexpr const char* kNames[kNumDamages] = {
      "cut in a payload",    "cut at or in a header", "cut in the end marker or its padding",
      "header byte flipped", "header zeroed",         "payload byte flipped"};
  return kNames[static_cast<int>(damage)];
}

std::string small_shard(int samples) {
  TarBuilder tar;
  for (int i = 0; i < samples; ++i) {
    const std::string key = "sample" + std::to_string(i);
    tar.file(key + ".cls", std::to_string(i % 10)).file(key + ".jpg", payload(i));
  }
  return tar.end().bytes();
}

std::vector<Mutant> mutants_of(const std::string& tar, int samples) {
  const std::vector<Place> members = places(samples);
  std::vector<std::size_t> cuts;
  for (std::size_t cut = 0; cut < tar.size(); cut += kBlock) cuts.push_back(cut);
  KeyedRng rng({.seed = 11});
  for (int i = 0; i < 8; ++i) cuts.push_back(rng.below(tar.size()));
  std::vector<Mutant> mutants;
  for (const std::size_t cut : cuts) {
    mutants.push_back({damage_of_cut(cut, members), tar.substr(0, cut)});
  }
  for (const Place& member : members) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      const int bit = static_cast<int>(rng.below(8));
      mutants.push_back({Damage::kFlippedHeader, flipped(tar, member.header + i, bit)});
    }
    std::string zeroed = tar;
    std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(member.header), kBlock, '\0');
    mutants.push_back({Damage::kZeroedHeader, std::move(zeroed)});
    for (std::size_t i = 0; i < member.size; i += 7) {
      const int bit = static_cast<int>(rng.below(8));
      mutants.push_back({Damage::kFlippedPayload, flipped(tar, member.header + kBlock + i, bit)});
    }
  }
  return mutants;
}

std::string edit_of(const Mutant& mutant, const std::string& tar) {
  const std::string kind = std::to_string(static_cast<int>(mutant.damage));
  if (mutant.tar.size() < tar.size()) return kind + " cut " + std::to_string(mutant.tar.size());
  const auto first = std::mismatch(tar.begin(), tar.end(), mutant.tar.begin()).first;
  const auto last = std::mismatch(tar.rbegin(), tar.rend(), mutant.tar.rbegin()).first.base();
  std::string hex;
  for (auto at = first; at < last; ++at) {
    constexpr char kDigits[] = "0123456789abcdef";
    const auto byte =
        static_cast<unsigned char>(mutant.tar[static_cast<std::size_t>(at - tar.begin())]);
    hex += {kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return kind + " set " + std::to_string(first - tar.begin()) + " " + hex;
}

}  // namespace millrace::testing
