// A store of one's own: urls az://ACCOUNT/PATH are read, and written, where that account lies. Here
// an account is a folder; for Azure's blobs `place_of` would give
// "https://ACCOUNT.blob.core.windows.net/PATH?SAS", and everything else would stay as it is.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "millrace/io/opener.h"

inline millrace::io::Store own_store(const std::string& root) {
  namespace io = millrace::io;
  const auto inner = std::make_shared<io::UrlOpener>();  // reads and writes what the urls stand for
  const auto place_of = [root](const std::string& url) {
    return root + "/" + url.substr(std::string("az://").size());
  };
  return {
      .scheme = "az",
      .open = [=](const std::string& url,
                  const io::OpenOptions& options) { return inner->open(place_of(url), options); },
      .create =
          [=](const std::string& url, const io::FileSinkOptions& options,
              const std::stop_token& stop) {
            return inner->open_sink(place_of(url), options, stop);
          }};
}
