// SPDX-License-Identifier: Apache-2.0
// A directory: a tree of small nodes that several servers keep in agreement. Clients hold sessions with it; nodes may
// end with the session that made them, and a watch of a node reports its next change. ZooKeeper is one
// (zookeeper_directory.hpp); another, such as etcd, would need only this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace ripc::internal::resolver {

class Directory {
 public:
  struct Node {
    std::string data;
    std::uint64_t created = 0;  // larger for a node that was made later, in the whole directory
    std::uint64_t owner = 0;    // the session with which the node ends; 0: none
    std::int64_t born = 0;      // by the clock of the servers, in milliseconds since 1970
    std::int32_t version = 0;   // counts the writes to it
    std::int32_t guard = 0;     // with Read::exact: tells commit() whether anything has changed since the read
  };

  enum class Outcome : std::uint8_t {
    done,
    absent,   // there is no such node
    exists,   // commit(): a node to be made exists already
    changed,  // commit(): a node is not the one that was seen, or was made or removed since
    unknown,  // the connection was lost: the change may have happened or not
    refused,  // the servers do not allow it
  };
  struct Answer {
    Outcome outcome = Outcome::unknown;
    Node node;                          // get(): done
    std::vector<std::string> children;  // children(): done; names, in no order
    std::string reason;                 // refused: in the words of the servers
  };
  // Called once for each question, by the directory's thread, never inside the call that asks. If it or a function of
  // the listener throws std::bad_alloc, link_up() is called as for a new session, with the present session.
  using Done = std::function<void(const Answer&)>;

  enum class Read : std::uint8_t {
    plain,
    watched,  // and the listener is notified of the next change, also when an absent node appears
    exact,    // with Node::guard
  };
  // One step of a commit. The nodes that it makes end with this session. `create`: makes a node that others may want
  // too, if there is none, or after the `remove` of the same path. `replace`, `remove`: change the node that an exact
  // read saw, and only if it is still that node. `add`, `drop`: a node that no one else makes. If someone has removed
  // it, the rest of the commit is made without its `drop`.
  struct Write {
    enum class Kind : std::uint8_t { create, replace, remove, add, drop };
    Kind kind = Kind::create;
    std::string path;
    std::string data;
    Node seen;
  };

  // The directory's thread calls it.
  class Listener {
   public:
    virtual ~Listener() = default;
    // The directory can be asked now. is_new: the session is a new one, so all watches and nodes of the former one are
    // gone.
    virtual void link_up(std::uint64_t session, bool is_new) = 0;
    // No server answers. The session may live on; questions that are asked meanwhile go out when a server answers
    // again.
    virtual void link_down() = 0;
    // A watch of the node or of its children has fired and has thereby ended.
    virtual void changed(std::string_view path) = 0;
  };

  virtual ~Directory() = default;
  // Once. The listener outlives stop().
  virtual Status start(Listener& listener) = 0;
  // Ends the session, and with it all nodes that it made. No callback runs afterwards. Questions may go unanswered.
  virtual void stop() noexcept = 0;

  // Any thread may call these. Questions are answered in the order in which they were asked. A commit makes the folders
  // that a new node needs.
  virtual void get(std::string path, Read how, Done done) = 0;
  virtual void children(std::string path, bool is_watched, Done done) = 0;
  // Makes all of the changes or none. If `session` has ended, it makes none, and the outcome is `unknown`.
  virtual void commit(std::uint64_t session, std::vector<Write> writes, Done done) = 0;
  // Later answers include everything that any client had received before this call.
  virtual void sync(Done done) = 0;
  // Ends the watches of a node.
  virtual void forget(std::string path) = 0;

  // How many watches, of paths that are at most this long, every server accepts after a reconnect.
  virtual std::size_t most_watches(std::size_t path_size) const noexcept = 0;

  // Static: "zookeeper".
  virtual std::string_view name() const noexcept = 0;
  // Which one it is, and what is wrong with it now, for people.
  virtual std::string text() const = 0;
  virtual std::string trouble() const = 0;
};

}  // namespace ripc::internal::resolver
