#include <fmt/format.h>

#include <array>
#include <utility>

#include "tools/report/html.h"
#include "tools/report/page.h"

namespace millrace::tools {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 7> kRemedies = {{
    {"input-bound by decode",
     "Give decoding more cores (--threads), store smaller pictures (reshard --jpeg 'resize(256)'; "
     "stats --storage tells), "
     "re-code JPEGs for random crops (reshard --jpeg restarts), or keep a small set decoded "
     "(--cache-decoded)."},
    {"input-bound by read over the network",
     "The network is the limit: read more shards at once (--streams), keep them on a disk "
     "(--cache), "
     "or store smaller pictures (reshard --jpeg 'resize(256)')."},
    {"input-bound by read",
     "Read more shards at once (--streams), make shards larger, or keep them nearer (--cache)."},
    {"input-bound by merge",
     "More --streams and a smaller --shuffle buffer leave less to put in order."},
    {"input-bound",
     "Measure the input alone with millrace bench: it names the stage that is slow."},
    {"reduction-bound",
     "Larger batches or --accumulate make sums rarer; --allreduce tree-bf16 halves their bytes; "
     "fewer processes or a faster network shorten them."},
    {"compute-bound",
     "The input is fast enough. train --dump-plan shows which layer takes the time."},
}};

}  // namespace

Advice advice_of(const RecordJson& epoch) {
  const std::string verdict = text_in(epoch, "verdict");
  if (verdict.empty()) return {};
  Advice advice{.verdict = "The last epoch was " + verdict + "."};
  if (verdict.starts_with("too short")) advice.verdict = "The last epoch was too short to tell.";
  for (const auto& [begin, remedy] : kRemedies) {
    if (!verdict.starts_with(begin)) continue;
    advice.what_to_do = remedy;
    break;
  }
  const double seconds = number_in(epoch, "train_seconds").value_or(0);
  const double waited = number_in(epoch, "wait_share").value_or(0) * seconds;
  if (verdict.starts_with("input-bound") && waited > 0)
    advice.verdict += fmt::format(" Of {} of training, {} were spent waiting for batches.",
                                  html::duration(seconds), html::duration(waited));
  return advice;
}

}  // namespace millrace::tools
