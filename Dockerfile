# foltr-audit and what it runs with and draws with, without the tools of its tests; it runs as a user without rights.
#   docker build -t foltr-audit .
#   docker run --rm -v "$PWD:/work" foltr-audit check limits.toml --config spec.toml
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY foltr_audit foltr_audit
COPY attacks attacks
COPY defenses defenses
COPY scenarios scenarios
COPY studies studies
COPY recorder recorder
RUN python -m venv /opt/foltr-audit && /opt/foltr-audit/bin/pip install --no-cache-dir --constraint constraints.txt '.[plot]'

FROM python:3.11-slim
COPY --from=build /opt/foltr-audit /opt/foltr-audit
RUN useradd --create-home --uid 1000 audit && mkdir /work && chown audit /work
# Compiled kernels and read data are kept in the home folder: mount a volume there to keep them between runs.
ENV PATH=/opt/foltr-audit/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
USER audit
WORKDIR /work
ENTRYPOINT ["foltr-audit"]
CMD ["--help"]
