// SPDX-License-Identifier: Apache-2.0
package org.libripc.stream;

/** Takes the streams that other services open. */
public interface StreamAcceptor {
  /**
   * A service that is admitted has opened a stream. The stream is accepted when this returns, or
   * when it calls {@link ByteStream#accept}, which must come before it writes. In a thread of the
   * executor; it may block.
   *
   * @throws Exception ends the stream, and is logged
   */
  void opened(ByteStream stream) throws Exception;
}
