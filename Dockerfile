# The explorer, a node, or any other command of fedpact.
#
#   docker build -t fedpact .
#   docker run --rm --network host -v "$PWD:/data" fedpact explore scenario.toml --no-browser
#   docker run --rm -v "$PWD:/data" fedpact compare scenario.toml --html report.html
#   docker run --rm -v "$PWD:/data" --entrypoint flower-supernode fedpact --superlink HOST:9092 ...
#
# The explorer answers this machine alone, so it needs the host's network; open the address that it prints.
FROM python:3.11-slim
COPY . /opt/fedpact
RUN pip install --no-cache-dir -c /opt/fedpact/constraints.txt "/opt/fedpact[explore,flower,train]"
RUN useradd --create-home member
USER member
WORKDIR /data
ENV FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
ENTRYPOINT ["fedpact"]
