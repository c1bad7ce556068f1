// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * The reducers whose requests a NodeManager answers, and the requests that have come. A session is
 * random, so a request to another NodeManager, or to one before its restart, belongs to none. All
 * threads.
 */
final class Sessions {
  private static final int WINDOW = 64;

  /** The session of one reducer. */
  private static final class Session {
    final String job;
    long highest;
    long seen; // bit n: highest - n has come

    Session(String job) {
      this.job = job;
    }
  }

  private final SecureRandom random = new SecureRandom();
  private final Map<ByteBuffer, Session> sessions;
  private final Set<ByteBuffer> begun; // the last nonces

  /**
   * @param limit beyond it, the least recently used session ends, and its reducer begins again
   */
  Sessions(int limit) {
    sessions = bounded(limit, true);
    begun = Collections.newSetFromMap(bounded(limit, false));
  }

  private static <V> Map<ByteBuffer, V> bounded(int limit, boolean byUse) {
    return new LinkedHashMap<>(16, 0.75f, byUse) {
      private static final long serialVersionUID = 1;

      @Override
      protected boolean removeEldestEntry(Map.Entry<ByteBuffer, V> eldest) {
        return size() > limit;
      }
    };
  }

  /** A new session; null if a request with this nonce has come before. */
  synchronized byte[] begin(String job, byte[] nonce) {
    if (!begun.add(ByteBuffer.wrap(nonce))) return null;
    byte[] name = new byte[Wire.SESSION_BYTES];
    random.nextBytes(name);
    sessions.put(ByteBuffer.wrap(name), new Session(job));
    return name.clone();
  }

  /** The job of a session; null if there is none of that name. */
  synchronized String jobOf(byte[] session) {
    Session found = sessions.get(ByteBuffer.wrap(session));
    return found == null ? null : found.job;
  }

  /**
   * Takes note of a request whose MAC is right.
   *
   * @return false if it has come before, or may have: it is older than the window
   */
  synchronized boolean isNew(byte[] session, long number) {
    Session found = sessions.get(ByteBuffer.wrap(session));
    if (found == null || number < 1) return false;
    if (number > found.highest) {
      long ahead = number - found.highest;
      found.seen = (ahead >= WINDOW ? 0 : found.seen << ahead) | 1;
      found.highest = number;
      return true;
    }
    long behind = found.highest - number;
    if (behind >= WINDOW || (found.seen >> behind & 1) != 0) return false;
    found.seen |= 1L << behind;
    return true;
  }

  /** Ends the sessions of a job. */
  synchronized void endJob(String job) {
    sessions.values().removeIf(each -> each.job.equals(job));
  }

  synchronized int count() {
    return sessions.size();
  }
}
