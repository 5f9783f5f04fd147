#include "tools/shard_lists.h"

#include <algorithm>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "wds/shard_spec.h"

namespace millrace::tools {

bool ShardLists::are_known(const std::vector<std::string>& specs) const {
  return std::none_of(specs.begin(), specs.end(), [this](const std::string& spec) {
    return wds::expands_over_network(spec, {.opener = network_.opener().get()});
  });
}

std::vector<std::string> ShardLists::urls(const std::vector<std::string>& specs) const {
  std::vector<std::string> urls;
  for (const wds::ManifestShard& shard : entries(specs)) urls.push_back(shard.url);
  return urls;
}

const std::vector<wds::ManifestShard>& ShardLists::entries(
    const std::vector<std::string>& specs) const {
  const auto known = expanded_.find(specs);
  if (known != expanded_.end()) return known->second;
  auto listed =
      wds::list_shards(specs, {.opener = network_.opener().get(), .stop = network_.stop()});
  listed_->add(listed);
  return expanded_.emplace(specs, std::move(listed)).first->second;
}

std::vector<std::vector<std::string>> ShardLists::joined(
    const std::vector<std::string>& specs, const std::vector<std::string>& completed) const {
  std::vector<std::vector<std::string>> lists;
  if (specs.empty()) return lists;
  const std::size_t wanted = urls(completed).size();
  for (const std::string& spec : specs) {
    lists.push_back(urls({spec}));
    require(std::ranges::all_of(lists.back(), io::can_reopen),
            "--join " + io::printable_url(spec) +
                ": fields are found by key, and a pipe cannot be searched");
    require(lists.back().size() == wanted, "--join " + io::printable_url(spec) + ": " +
                                               counted(lists.back().size(), "shard") +
                                               " cannot complete " + counted(wanted, "shard") +
                                               ": it has one for each, in the same order");
  }
  return lists;
}

std::function<std::optional<std::uint64_t>(const std::string& url)> ShardLists::samples_of() const {
  return [listed = listed_, reads = network_.opener()](const std::string& url) {
    return listed->of(url, *reads);
  };
}

}  // namespace millrace::tools
