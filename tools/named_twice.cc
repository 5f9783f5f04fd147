#include "tools/named_twice.h"

#include "io/opener.h"
#include "io/same_file.h"
#include "tools/values.h"

namespace millrace::tools {

void refuse_named_twice(std::span<const std::string> places) {
  const auto repeated = io::find_repeated_files(places);
  if (!repeated) return;
  const std::string one = io::printable_url(places[repeated->first]);
  const std::string other = io::printable_url(places[repeated->second]);
  require(false, one == other ? one + " is named twice" : one + " and " + other + " are one");
}

}  // namespace millrace::tools
