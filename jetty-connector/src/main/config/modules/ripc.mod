[description]
Serves clear-text HTTP/1.1 and HTTP/2 under a service ID of libripc: over shared memory, RDMA or sockets, whichever leads to the client.
Put ripc-jetty, ripc-stream and ripc into lib/ripc, and jna where libripc-jni.so is not.

[tags]
connector
ripc

[depends]
http2c
server

[files]
lib/ripc/

[lib]
lib/ripc/*.jar

[xml]
etc/jetty-ripc.xml

[ini-template]
## The name of the service
# jetty.ripc.serviceName=jetty

## Whether the name is taken from a process that lives and has it
# jetty.ripc.takeover=false

## The most connections at once
# jetty.ripc.maxConnections=8192

## Idle time-out of connections, in milliseconds
# jetty.ripc.idleTimeout=30000
